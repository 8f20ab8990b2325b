"""Metrics do not depend on the order of rows or on ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.reports.files import metrics_json, run
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.reference.ranking_metrics import ndcg

COLORS, THINGS = ("red", "green", "blue"), ("hat", "tie", "box", "shoe")
TITLES = [f"{color} {thing}" for color in COLORS for thing in THINGS]


class WordOverlap:
    """Scores by the number of common words: most titles tie."""

    name = "word overlap"

    def score(self, query, titles):
        return np.array([len({*query.split()} & {*title.split()}) for title in titles], float)

    def score_matrix(self, queries, titles):
        return np.stack([self.score(query, titles) for query in queries])


class AllTied(WordOverlap):
    """All titles tie."""

    def score(self, query, titles):
        return np.zeros(len(titles))


def judged_rows(random: np.random.Generator) -> list[tuple[int, str, int, float]]:
    """Rows of query number, query text, index in `TITLES`, and grade."""
    rows = []
    for number in range(8):
        query = " ".join([*random.choice([*COLORS, *THINGS, "new"], 1 + number % 2), str(number)])
        titles = random.choice(len(TITLES), 4, replace=False)
        rows += [(number, query, int(title), float(random.integers(0, 4))) for title in titles]
    return [(0, "red hat", 0, 3.0), *(row for row in rows if row[0])]


def measured_json(rows, ids, query_ids, corpus):
    """The `metrics.json` of these rows under these ids."""
    judgments = [
        Judgment(query_ids[number], query, ids[title], TITLES[title], grade)
        for number, query, title, grade in rows
    ]
    corpus_titles = (
        None if corpus is None else [CorpusTitle(ids[title], TITLES[title]) for title in corpus]
    )
    bm25 = BASELINES["bm25"]().fit([], TITLES)
    systems = {"bm25": bm25, "word overlap": WordOverlap(), "all tied": AllTied()}
    evaluation = evaluate(systems, judgments, corpus_titles)
    return metrics_json(evaluation)


@pytest.mark.long
@pytest.mark.parametrize("ranks_corpus", [True, False])
@given(st.data())
@settings(max_examples=25)
def test_an_evaluation_depends_neither_on_the_order_of_rows_nor_on_ids(ranks_corpus, data):
    rows = judged_rows(np.random.default_rng(data.draw(st.integers(0, 99))))
    ids = [f"d{n:02d}" for n in range(len(TITLES))]
    query_ids = [f"q{n}" for n in range(8)]
    corpus = range(len(TITLES)) if ranks_corpus else None
    expected = measured_json(rows, ids, query_ids, corpus)
    shuffled = measured_json(
        data.draw(st.permutations(rows)),
        data.draw(st.permutations(ids)),
        data.draw(st.permutations(query_ids)),
        data.draw(st.permutations(corpus)) if ranks_corpus else None,
    )
    assert shuffled == expected


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_other_tools_read_the_measured_ranking_from_a_written_run(order):
    titles = [f"title {n}" for n in range(6)]
    corpus = [CorpusTitle(f"d{index}", title) for index, title in zip(order, titles, strict=True)]
    judgments = [Judgment("q", "q", corpus[0].doc_id, titles[0], 3.0)]
    evaluation = evaluate({"n": AllTied()}, judgments, corpus)
    scores = run(evaluation.task, evaluation.runs["n"])["q"]
    # trec_eval sorts by score in single precision, then by doc id, both descending.
    ranked = sorted(scores, key=lambda doc_id: (np.float32(scores[doc_id]), doc_id), reverse=True)
    doc_id_of = {row.title: row.doc_id for row in corpus}
    assert ranked == [doc_id_of[title] for title in sorted(titles, key=tie_key)]
    grades = [3.0 if doc_id == corpus[0].doc_id else 0.0 for doc_id in ranked]
    assert evaluation.mean("n", "ndcg@10") == pytest.approx(ndcg(grades, 10), abs=1e-6)


def test_ids_in_the_order_of_clicks_do_not_affect_ties():
    # As in an aggregated log, the relevant titles have the smallest ids. All titles tie, so a
    # relevant title is first with probability 1/20. Over 400 queries, the standard deviation of the
    # mean is 0.011.
    judgments = [
        Judgment(f"q{query}", f"query {query}", f"d{index:02d}{query}", f"{index} {query}", grade)
        for query in range(400)
        for index, grade in enumerate([3.0] + [0.0] * 19)
    ]
    evaluation = evaluate({"n": AllTied()}, judgments, metrics=["mrr@1"])
    assert abs(evaluation.mean("n", "mrr@1") - 1 / 20) < 0.04
