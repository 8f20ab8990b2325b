"""`dssm teach`: a teacher's cosines of clicked, best and drawn titles."""

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
from dssm_tf.tables.graded_lists import SCORES, read_lists
from dssm_tf.text.rules import FOLDED, Rules
from tests.benchmark.colours import TINY
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
    """Unit vectors that follow from the texts alone."""
    rows = np.stack([np.random.default_rng(zlib.crc32(t.encode())).normal(size=5) for t in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def taught(data, *arguments, **options):
    return list(teach(Preprocessed(data.path), (encode, encode), *arguments, **options))


def test_every_query_of_the_log_is_asked_about_with_its_clicked_and_the_teacher_s_best_titles(
    data, texts, monkeypatch
):
    monkeypatch.setattr(teacher, "_QUERIES", 3)  # the blocks of queries
    queries, titles = texts
    cosines = encode(queries) @ encode(titles).T
    clicked = {}
    for click in click_log():
        clicked.setdefault(FOLDED.key(click.query), set()).add(click.title)
    found = taught(data, best=3, random=2)
    assert sorted(FOLDED.key(one.query) for one in found) == sorted(clicked)
    for row, one in zip(cosines, found, strict=True):
        best = {titles[place] for place in np.argsort(-row)[:3]}
        assert clicked[FOLDED.key(one.query)] | best <= set(one.titles)
        assert len(one.titles) == len(set(one.titles)) <= len(clicked[FOLDED.key(one.query)]) + 5
        expected = [row[titles.index(title)] for title in one.titles]
        np.testing.assert_allclose(one.values, expected, atol=1e-6)


def test_drawn_titles_are_others_for_every_query_and_the_same_for_a_seed(data):
    first, again, other = (taught(data, 0, 4, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_texts_are_one_by_the_rules_of_the_directory(tmp_path):
    log = [Click("pâté", "Crème"), Click("pate", "creme"), Click("Pate", "Crème")]
    kept = taught(write_data(tmp_path / "kept", log, rules=Rules(keep_accents=True)), 2, 0)
    assert {one.query: len(one.titles) for one in kept} == {"pate": 2, "pâté": 2}
    folded = taught(write_data(tmp_path / "folded", log), 2, 0)
    assert [len(one.titles) for one in folded] == [1]


def test_the_command_writes_scores_that_train_reads(data, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(external, "load_encoder", lambda model: (encode, 1.0))
    out = tmp_path / "scores.tsv"
    teach_command(data=data.path, model="owner/any", out=out, best=2, random=1)
    found = read_lists(out, "score", SCORES, FOLDED)
    assert len(found) == len(texts[0])
    expected = encode([found[0].query]) @ encode([found[0].titles[0]]).T
    assert found[0].values[0] == pytest.approx(expected.item(), abs=1e-6)
    with pytest.raises(UserError, match="exists already"):
        teach_command(data=data.path, model="owner/any", out=out)
    with pytest.raises(UserError, match="expected at least one title"):
        teach_command(data=data.path, model="owner/any", out=tmp_path / "new.tsv", best=0, random=0)


def test_a_trained_model_can_teach(data, tmp_path):
    run = finished_run(tmp_path / "run", data, TINY)
    queries, titles = load_teacher(str(run))
    assert queries(["hat"]).shape == titles(["red hat"]).shape == (1, 8)
