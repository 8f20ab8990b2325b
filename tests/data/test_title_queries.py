"""Titles as queries for themselves, which still know what the log clicked."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.config import parse_config
from dssm_tf.data.clicked_titles import ClickedTitles
from dssm_tf.data.example_pb2 import Example
from dssm_tf.data.schema import Title
from dssm_tf.data.title_queries import choose_titles, title_query_records
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training import fitting
from dssm_tf.training.train import train
from tests.clicks import click_log, seal, write_data

TITLES = [Title("iPod", 9, 3), Title("Apple iPod 8GB", 5, 2), Title("Zune", 1, 1), Title("Case", 0)]
NONE = ClickedTitles(*np.zeros((2, 0), np.int64))
VOCABULARY = Vocabulary.from_counts(dict.fromkeys(letter_ngrams("ipod"), 1), 99, FOLDED)


def features(record: bytes) -> dict[str, list]:
    found = Example.FromString(record).features.feature
    return {
        name: list(getattr(one, str(one.WhichOneof("kind"))).value) for name, one in found.items()
    }


def test_each_title_is_a_query_that_clicks_itself_once():
    records = title_query_records(TITLES, VOCABULARY, NONE, negatives=2, alpha=1.0, seed=0)
    found = [features(record) for record in records]
    assert [one["query"] for one in found] == [[title.text.encode()] for title in TITLES]
    for one, title in zip(found, TITLES, strict=True):
        assert one["titles"][0] == title.text.encode()
        assert one["clicks"] == [1.0]
        assert len(set(one["titles"])) == len(one["titles"]) <= 3


def test_a_title_the_log_clicked_for_that_text_is_never_its_negative():
    clicked = ClickedTitles(*np.array([[FOLDED.id("ipod")], [FOLDED.id("Apple iPod 8GB")]]))
    for seed in range(20):
        records = title_query_records(TITLES, VOCABULARY, clicked, 3, 1.0, seed)
        ipod = features(records[0])
        assert b"Apple iPod 8GB" not in ipod["titles"]


def test_the_draw_depends_on_the_seed_alone():
    draws = [title_query_records(TITLES, VOCABULARY, NONE, 2, 0.75, seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


def test_titles_equal_after_normalisation_and_those_without_a_word_are_one_and_none():
    titles = [Title("Zune", 2), Title("ZUNE!", 1), Title("?!", 1)]
    records = title_query_records(titles, VOCABULARY, NONE, 2, 1.0, 0)
    assert [features(record)["query"] for record in records] == [[b"Zune"]]


def test_one_title_has_no_negatives_and_no_titles_no_records():
    (record,) = title_query_records(TITLES[:1], VOCABULARY, NONE, 4, 1.0, 0)
    assert features(record)["titles"] == [b"iPod"]
    assert title_query_records([], VOCABULARY, NONE, 4, 1.0, 0) == []


def test_of_many_titles_without_a_click_a_sample_is_taken_and_all_clicked_ones():
    many = [*TITLES[:3], *(Title(f"case {i:02d}", 0) for i in range(40))]
    assert choose_titles(many, 40, seed=0) == many
    for limits in ({"max_unclicked": 10}, {"max_unclicked": 40, "max_titles": 13}):
        draws = [choose_titles(many, seed=seed, **limits) for seed in range(30)]
        assert draws[0][:3] == TITLES[:3]
        assert draws[0] == sorted(draws[0], key=many.index)
        assert all(len(draw) == 13 for draw in draws)
        assert draws[0] == choose_titles(many, seed=0, **limits) != draws[1]
        # Not the first by name: each of the 40 has its chance.
        assert len({title for draw in draws for title in draw}) == 43
    assert choose_titles(many, 40, seed=0, max_titles=2) == TITLES[:2]


def test_training_learns_the_titles_of_the_corpus_as_many_as_there_are_pairs(tmp_path, monkeypatch):
    data = write_data(tmp_path / "data", click_log(24))
    table = data.path / "titles.tsv"
    lines = [f"never clicked {n}\t0\t0\n" for n in range(200)]
    table.write_text(table.read_text("utf-8") + "".join(lines), "utf-8")
    seal(data.path)
    seen = []
    make = fitting.title_query_records
    monkeypatch.setattr(fitting, "title_query_records", lambda *a: seen.append(a[0]) or make(*a))
    settings = {"epochs": 1, "batch_size": 8, "title_queries": True, "xla": False}
    raw = {"tower": {"name": "dssm", "widths": [4]}, "training": settings}
    train(parse_config(raw), data.path, tmp_path / "run", quiet=True)
    (titles,) = seen
    assert sum(title.clicks == 0 for title in titles) == data.spec.records["train"] < 200
    assert sum(title.clicks > 0 for title in titles) > 0


def test_popular_titles_are_drawn_more_often_as_alpha_grows():
    many = [Title(f"title {i}", 1000 if i == 0 else 1) for i in range(60)]
    share = []
    for alpha in (0.0, 1.0):
        records = title_query_records(many, VOCABULARY, NONE, 1, alpha, 0)
        share.append(np.mean([b"title 0" in features(record)["titles"][1:] for record in records]))
    # 1000 / 1059 of the draws against 1 / 60; the title itself cannot be its own.
    assert share[0] < 0.2
    assert share[1] == pytest.approx(0.94, abs=0.1)
