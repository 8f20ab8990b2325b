"""`dssm_tf.evaluate`: means computed by hand, and tables as files or in memory."""

from __future__ import annotations

import numpy as np
import pytest
from pytest import approx

import dssm_tf
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.rankers import TableRanker

JUDGMENTS = [
    Judgment("1", "fox", "a", "red fox", 2),
    Judgment("1", "fox", "b", "owl", 0),
    Judgment("2", "owl", "b", "owl", 1),
    Judgment("2", "owl", "a", "red fox", 0),
]
CORPUS = [CorpusTitle("a", "red fox"), CorpusTitle("b", "owl"), CorpusTitle("c", "bear")]


TITLE_SCORES = {"red fox": 3.0, "bear": 2.0, "owl": 1.0}
# Ranks the red fox first for every query, then the bear.
FIXED = TableRanker(
    {
        (query, title): TITLE_SCORES[title]
        for query in ("fox", "owl", "bear", "x")
        for title in TITLE_SCORES
    },
    "fixed",
)


def test_the_mean_equals_the_value_computed_by_hand():
    # The fox is at rank 1 and the owl at rank 2 of two titles: 1 and 1 / log2(3).
    evaluation = dssm_tf.evaluate(FIXED, JUDGMENTS)
    assert evaluation.systems == ("fixed",)
    assert evaluation.mean("fixed", "ndcg@10") == approx((1 + 1 / np.log2(3)) / 2)


def test_with_a_corpus_all_its_titles_are_ranked(tmp_path):
    # The owl is at rank 3 of three titles: 1 / log2(4).
    expected = approx((1 + 1 / 2) / 2)
    evaluation = dssm_tf.evaluate(FIXED, JUDGMENTS, CORPUS, metrics=["ndcg@3"])
    assert evaluation.mean("fixed", "ndcg@3") == expected
    judgments, corpus = tmp_path / "judgments.tsv", tmp_path / "corpus.tsv"
    for path, rows in ((judgments, JUDGMENTS), (corpus, CORPUS)):
        lines = [rows[0]._fields, *rows]
        path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines), "utf-8")
    evaluation = dssm_tf.evaluate(FIXED, judgments, str(corpus))
    assert evaluation.mean("fixed", "ndcg@3") == expected


def test_judged_titles_only_and_the_judgment_rate():
    evaluation = dssm_tf.evaluate(FIXED, JUDGMENTS, CORPUS, judged_only=True)
    # Each query ranks red fox, bear, owl; the bear has no judgment.
    assert evaluation.mean("fixed", "judged@10") == approx(2 / 3)
    # Without the bear, the fox is at rank 1 and the owl at rank 2, so of the two pairs one is in
    # the right order.
    assert evaluation.judged_only.mean("fixed", "ndcg@10") == approx((1 + 1 / np.log2(3)) / 2)
    assert evaluation.judged_only.mean("fixed", "concordance") == 1 / 2


@pytest.mark.parametrize(
    ("grades", "corpus", "warnings"),
    [((1, 2), None, ["For 3 of 3 q"]), ((0, 1, 2), None, ["For 1 of 3 q"]), ((1, 2), CORPUS, [])],
)
def test_judgments_for_which_any_order_is_perfect_have_a_warning(grades, corpus, warnings):
    others = [Judgment("3", "bear", "c", "bear", 0), Judgment("4", "x", "b", "owl", 1)]
    judgments = [*(judgment for judgment in JUDGMENTS if judgment.grade in grades), *others]
    lines = dssm_tf.evaluate(FIXED, judgments, corpus).task.degenerate_query_warning()
    assert [line[:12] for line in lines] == warnings
