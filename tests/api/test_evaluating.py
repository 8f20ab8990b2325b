"""`dssm_tf.evaluate`: means by hand, and tables as files or in memory."""

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


LIKING = {"red fox": 3.0, "bear": 2.0, "owl": 1.0}
# Likes the red fox best whatever the query, then the bear.
FIXED = TableRanker(
    {(query, title): LIKING[title] for query in ("fox", "owl", "bear", "x") for title in LIKING},
    "fixed",
)


def test_the_mean_is_that_of_the_ranks():
    # The fox comes first of its query, the owl second of two: 1 and 1 / log2(3).
    found = dssm_tf.evaluate(FIXED, JUDGMENTS)
    assert found.systems == ("fixed",)
    assert found.mean("fixed", "ndcg@10") == approx((1 + 1 / np.log2(3)) / 2)


def test_with_a_corpus_all_of_it_is_ranked(tmp_path):
    # Of three titles the owl comes last: 1 / log2(4).
    wanted = approx((1 + 1 / 2) / 2)
    found = dssm_tf.evaluate(FIXED, JUDGMENTS, CORPUS, metrics=["ndcg@3"])
    assert found.mean("fixed", "ndcg@3") == wanted
    judgments, corpus = tmp_path / "judgments.tsv", tmp_path / "corpus.tsv"
    for path, rows in ((judgments, JUDGMENTS), (corpus, CORPUS)):
        lines = [rows[0]._fields, *rows]
        path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines), "utf-8")
    found = dssm_tf.evaluate(FIXED, judgments, str(corpus))
    assert found.mean("fixed", "ndcg@3") == wanted


@pytest.mark.parametrize(
    ("grades", "corpus", "told"),
    [((1, 2), None, ["For 3 of 3 q"]), ((0, 1, 2), None, ["For 1 of 3 q"]), ((1, 2), CORPUS, [])],
)
def test_judgments_that_any_order_satisfies_are_told(grades, corpus, told):
    others = [Judgment("3", "bear", "c", "bear", 0), Judgment("4", "x", "b", "owl", 1)]
    judgments = [*(one for one in JUDGMENTS if one.grade in grades), *others]
    found = dssm_tf.evaluate(FIXED, judgments, corpus).task.degenerate_query_warning()
    assert [line[:12] for line in found] == told
