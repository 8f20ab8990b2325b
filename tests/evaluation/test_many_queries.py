"""Runs of many queries have fewer titles per query, and metrics stay the same."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from dssm_tf.common import mapped_frames
from dssm_tf.common.mapped_frames import mapped_if_large
from dssm_tf.evaluation import runs
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.runs import abridge, run_depth
from dssm_tf.tables.judgments import CorpusTitle, Judgment

QUERIES, TITLES = 6, 40
METRICS = ("ndcg@10", "judged@3", "judged@30", "judged@90", "mrr@20", "recall@30", "map")


class RandomRanker:
    """Random scores; every second title of the last query is not ranked."""

    name = "random"

    def score_matrix(self, queries, titles):
        scores = [
            np.random.default_rng(int(query)).integers(0, 9, len(titles)) for query in queries
        ]
        table = np.array(scores, float)
        table[[query == str(QUERIES - 1) for query in queries], ::2] = -np.inf
        return table


def judged_corpus():
    random = np.random.default_rng(1)
    corpus = [CorpusTitle(f"t{number}", f"title {number}") for number in range(TITLES)]
    judgments = [
        Judgment(f"q{query}", str(query), *corpus[title], float(grade))
        for query in range(QUERIES)
        for grade, title in enumerate(random.choice(TITLES, 4, replace=False))
    ]
    return judgments, corpus


@pytest.fixture
def small_runs(monkeypatch):
    """Runs of these queries have five titles per query."""
    monkeypatch.setattr(runs, "MAX_ROWS", 5 * QUERIES + 1)
    monkeypatch.setattr(runs, "MIN_DEPTH", 2)


def test_metrics_do_not_depend_on_the_number_of_titles_in_a_run(monkeypatch, request):
    judgments, corpus = judged_corpus()
    complete = evaluate(RandomRanker(), judgments, corpus, metrics=METRICS, judged_only=True)
    request.getfixturevalue("small_runs")
    small = evaluate(RandomRanker(), judgments, corpus, metrics=METRICS, judged_only=True)
    assert small.rows[0].seeds[0].values.equals(complete.rows[0].seeds[0].values)
    assert (
        small.judged_only.rows[0]
        .seeds[0]
        .values.equals(complete.judged_only.rows[0].seeds[0].values)
    )
    # The saved run has no titles of the metrics behind a gap.
    saved = small.runs["random"]
    assert saved.equals(complete.runs["random"].filter(pl.col("rank") <= 5))
    assert saved.group_by("query").len()["len"].to_list() == [5] * QUERIES


def test_a_run_has_a_bounded_number_of_titles_without_a_judgment(small_runs):
    judgments, corpus = judged_corpus()
    task = evaluate(RandomRanker(), judgments, corpus).task
    run = runs.rank_titles("random", RandomRanker().score_matrix, task).run
    assert 5 * QUERIES < len(run) <= (5 + 1) * QUERIES + len(judgments)


def test_an_abridged_run_has_the_first_the_judged_and_the_last_titles():
    run = pl.DataFrame({"query": [0] * 6, "title": [7, 3, 5, 1, 4, 2], "rank": range(1, 7)})
    judged = pl.DataFrame({"query": [0, 0, 1], "title": [1, 9, 5]})
    # Title 5 has a judgment for another query only.
    assert abridge(run, judged, depth=2)["title"].to_list() == [7, 3, 1, 2]
    assert abridge(run, judged, depth=1000) is run


def test_a_hundred_thousand_queries_have_a_hundred_titles_each():
    assert (run_depth(100_000), run_depth(20_000), run_depth(1)) == (100, 500, 1000)


def test_a_large_frame_is_mapped_from_a_file_without_a_name(monkeypatch, tmp_path):
    monkeypatch.setattr(mapped_frames, "MAX_BYTES", 100)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    small, large = (pl.DataFrame({"query": range(rows), "x": 0.5}) for rows in (3, 50))
    assert mapped_if_large(small) is small
    mapped = mapped_if_large(large)
    assert mapped is not large
    assert mapped.equals(large)
    assert [*tmp_path.iterdir()] == []
