"""`dssm teach`: a teacher's cosines of clicked, best and random titles."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from dssm_tf.benchmark import external, teacher
from dssm_tf.benchmark.external import load_teacher
from dssm_tf.benchmark.teacher import teach
from dssm_tf.commands.teach import teach as teach_command
from dssm_tf.common.errors import UserError
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.graded_lists import SCORE_LIMITS, read_lists
from dssm_tf.text.rules import FOLDED, TextRules
from tests.benchmark.colors import TINY
from tests.clicks import Click, click_log, write_data
from tests.runs import finished_run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("teacher") / "data", click_log())


@pytest.fixture(scope="module")
def texts(data):
    loaded = Preprocessed(data.path)
    return loaded.texts("queries"), loaded.texts("titles")


def encode(texts):
    """Unit vectors that depend only on the texts."""
    rows = np.stack([np.random.default_rng(zlib.crc32(t.encode())).normal(size=5) for t in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def lists_of(data, *arguments, **options):
    return list(teach(Preprocessed(data.path), (encode, encode), *arguments, **options))


def test_every_query_has_scores_of_its_clicked_and_of_the_teachers_best_titles(
    data, texts, monkeypatch
):
    monkeypatch.setattr(teacher, "_QUERIES", 3)  # so that there are several batches
    queries, titles = texts
    cosines = encode(queries) @ encode(titles).T
    clicked = {}
    for click in click_log():
        clicked.setdefault(FOLDED.key(click.query), set()).add(click.title)
    lists = lists_of(data, best=3, random=2)
    assert sorted(FOLDED.key(graded.query) for graded in lists) == sorted(clicked)
    for row, graded in zip(cosines, lists, strict=True):
        best = {titles[index] for index in np.argsort(-row)[:3]}
        assert clicked[FOLDED.key(graded.query)] | best <= set(graded.titles)
        assert (
            len(graded.titles)
            == len(set(graded.titles))
            <= len(clicked[FOLDED.key(graded.query)]) + 5
        )
        expected = [row[titles.index(title)] for title in graded.titles]
        np.testing.assert_allclose(graded.values, expected, atol=1e-6)


def test_random_titles_repeat_with_the_seed(data):
    first, again, other = (lists_of(data, 0, 4, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_texts_are_merged_by_the_rules_of_the_directory(tmp_path):
    log = [Click("pâté", "Crème"), Click("pate", "creme"), Click("Pate", "Crème")]
    with_accents = lists_of(
        write_data(tmp_path / "kept", log, rules=TextRules(keep_accents=True)), 2, 0
    )
    assert {graded.query: len(graded.titles) for graded in with_accents} == {"pate": 2, "pâté": 2}
    folded = lists_of(write_data(tmp_path / "folded", log), 2, 0)
    assert [len(graded.titles) for graded in folded] == [1]


def test_the_command_writes_scores_that_train_reads(data, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(external, "load_encoder", lambda model: (encode, 1.0))
    out = tmp_path / "scores.tsv"
    teach_command(data=data.path, model="owner/any", out=out, best=2, random=1)
    lists = read_lists(out, "score", SCORE_LIMITS, FOLDED)
    assert len(lists) == len(texts[0])
    expected = encode([lists[0].query]) @ encode([lists[0].titles[0]]).T
    assert lists[0].values[0] == pytest.approx(expected.item(), abs=1e-6)
    with pytest.raises(UserError, match="exists already"):
        teach_command(data=data.path, model="owner/any", out=out)
    with pytest.raises(UserError, match="expected at least one title"):
        teach_command(data=data.path, model="owner/any", out=tmp_path / "new.tsv", best=0, random=0)


def test_a_trained_model_can_teach(data, tmp_path):
    run = finished_run(tmp_path / "run", data, TINY)
    queries, titles = load_teacher(str(run))
    assert queries(["hat"]).shape == titles(["red hat"]).shape == (1, 8)
