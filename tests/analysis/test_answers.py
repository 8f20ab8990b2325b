"""Explanations from answers alone: exports beside their runs, baselines, long texts."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.analysis.answers import explain_answers
from dssm_tf.analysis.contributions import drawn_contributions, shapley, subsets
from dssm_tf.analysis.explanation import DRAWN, SCORE, SHAPLEY, explain
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.export.exported_ranker import ExportedRanker
from dssm_tf.export.saved_model import export, tolerance
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.towers import TOWERS
from tests.choices import small
from tests.clicks import click_log, write_data
from tests.runs import finished_run

QUERY, TITLE = "redd fox story", "the red fox story"
# Shapley values and losses are sums and differences of cosines of unit vectors, each of which the
# export may have off by the two towers' tolerance.
CLOSE = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    data = write_data(folder / "data", click_log())
    tower = {"name": "bilstm", **small(TOWERS["bilstm"])}
    run = finished_run(folder / "run", data, {"tower": tower}, prior_weight=0.1)
    return run, export(run, folder / "export", "served")


def test_an_export_is_explained_as_its_run_is(made):
    run, version = made
    ranker = SemanticRanker.load(run)
    inside = explain(ranker, QUERY, TITLE)
    outside = explain_answers(ExportedRanker(version, "served"), QUERY, TITLE)
    close = CLOSE * tolerance(ranker)
    assert outside.score == pytest.approx(inside.score, abs=close)
    assert outside.prior == pytest.approx(inside.prior, abs=close)
    assert inside.prior != 0
    for own, other in ((outside.query, inside.query), (outside.title, inside.title)):
        assert (own.words, own.method) == (other.words, SHAPLEY)
        assert own.contributions == pytest.approx(other.contributions, abs=close)
        assert own.lost == pytest.approx(other.lost, abs=close)
    assert outside.pairs == pytest.approx(inside.pairs, abs=close)
    assert "Of an export only the answers are known" in outside.notes[-1]


@pytest.mark.parametrize("given", ["version", "model"])
def test_the_command_explains_a_version_and_the_directory_of_versions(
    made, tmp_path, capsys, given
):
    path = made[1] if given == "version" else made[1].parent
    arguments = ["--query", QUERY, "--title", TITLE, "--out", str(tmp_path / "out")]
    assert main(["explain", "--model", str(path), *arguments]) == 0
    assert "redd" in capsys.readouterr().out
    assert {one.name for one in (tmp_path / "out").iterdir()} == {
        "explanation.json", "words.png", "words.svg",
    }  # fmt: skip


@pytest.mark.parametrize("query", ["?!", "ωψξ", ""])
def test_an_export_too_has_a_sentence_for_a_text_of_which_nothing_is_known(made, query):
    with pytest.raises(UserError, match=r"holds no word|knows no letter trigram"):
        explain_answers(ExportedRanker(made[1], "served"), query, TITLE)


def test_a_bm25_score_is_the_sum_of_its_words(tmp_path, capsys):
    titles = ["red fox", "blue owl", "green bear"]
    ranker = BM25().fit([], titles)
    found = explain_answers(ranker, "red bear fox", "red fox")
    alone = [ranker.score(word, ["red fox"])[0] for word in ("red", "bear", "fox")]
    assert found.measure == SCORE
    assert found.query.contributions == pytest.approx(alone)
    assert found.query.contributions.sum() == pytest.approx(found.score)
    ranker.save(tmp_path / "bm25")
    assert main(["explain", "--model", str(tmp_path / "bm25"), "--query", "red bear fox",
                 "--title", "red fox"]) == 0  # fmt: skip
    shown = capsys.readouterr().out
    assert "'red' stands in the title (50 % of the score)" in shown
    assert f"score {found.score:.3f}\n" in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing", "does not exist"), ("hybrid.json", "explain one of its members"),
     ("empty", "expected a directory that `dssm train` or `dssm export` wrote")],
)  # fmt: skip
def test_what_cannot_be_explained_is_a_sentence(tmp_path, capsys, name, said):
    (tmp_path / "hybrid.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    arguments = ["--model", str(tmp_path / name), "--query", "a", "--title", "b"]
    assert main(["explain", *arguments]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


WORTH = {word: place for place, word in enumerate("abcdefghijkl")}


def joint(texts):
    """Each word its number, and 7 more where `a` and `l` are both there."""
    sets = [text.split() for text in texts]
    return np.array([sum(map(WORTH.get, s)) + 7 * ("a" in s and "l" in s) for s in sets], float)


def test_orders_drawn_by_lot_come_near_to_the_exact_values():
    words = list("abcdefghil")
    exact = shapley(joint(subsets(words)).reshape((2,) * len(words)))
    found, spread = drawn_contributions(joint, words)
    assert found.sum() == pytest.approx(joint(["a b c d e f g h i l"])[0])
    assert found == pytest.approx(exact, abs=4 * spread + 1e-9)
    assert exact[0] == pytest.approx(3.5)  # half of what the two are worth together


def test_a_word_adds_in_an_order_what_it_adds_to_those_before_it():
    # Either a or l comes last of the two, in an order or in its reverse: no spread at all.
    found, spread = drawn_contributions(joint, ["a", "l"])
    assert found == pytest.approx([3.5, 14.5])
    assert spread == 0


def test_a_long_title_of_an_export_sums_to_the_cosine_and_says_how_sure_it_is(made):
    title = "the red fox story of a blue owl and a green bear"
    found = explain_answers(ExportedRanker(made[1], "served"), QUERY, title)
    assert found.title.method == DRAWN
    assert found.title.contributions.sum() == pytest.approx(found.cosine, abs=1e-6)
    assert found.title.spread > 0
