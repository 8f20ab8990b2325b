"""Runs, vectors and qrels of other programs."""

import numpy as np
import polars as pl
import pytest

from dssm_tf.benchmark.external import vectors
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.read import read_judged
from dssm_tf.evaluation.runs import make_run, relevant_ranks, trec_run
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import read_run

JUDGMENTS = [
    Judgment("q1", "hat", "d1", "red hat", 1.0),
    Judgment("q2", "box", "d3", "blue box", 2.0),
]
CORPUS = [CorpusTitle(f"d{n}", t) for n, t in ((1, "red hat"), (2, "tie"), (3, "blue box"))]


@pytest.fixture
def task():
    return RankingTask(JUDGMENTS, CORPUS)


def read(tmp_path, text, task):
    path = tmp_path / "r.trec"
    path.write_text(text)
    run, notes = trec_run("r", read_run(path), task)
    return relevant_ranks(run, task)["rank"].to_list(), notes


def test_a_run_says_how_many_queries_it_lacks(task, tmp_path):
    text = "q2 Q0 d3 1 2.5 t\nq2 Q0 d1 2 1.5 t\nq9 Q0 d1 1 1 t\n"
    assert read(tmp_path, text, task) == (
        [None, 1],
        [
            "1 judged queries are not listed; they count as 0: 'q1' for one",
            "1 listed queries are not judged here; they are left out: 'q9' for one",
        ],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 d1 1 nan t\n", "r.trec:1: score 'nan' is not a number"),
        ("q1 Q0 d1 1 inf t\n", "score of 'd1' for query 'q1' is inf"),
        ("q1 Q0 d1 1\n", "r.trec:1: 4 columns; expected query_id Q0 doc_id rank score tag"),
        ("q1 Q0 d1 1 2 t\nq1 Q0 d1 2 1 t\n", "r.trec:2: title 'd1' comes twice for query 'q1'"),
        ("q1 Q0 zz 1 2 t\n", "1 titles that are not ranked here, 'zz' for one"),
        ("7 Q0 d1 1 2 t\n", r"none of the judged query ids; it has \['7'\]"),
        ("", "r.trec is empty"),
    ],
)
def test_a_malformed_run_is_refused_with_its_place(task, tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, text, task)


def test_without_a_corpus_a_run_of_other_titles_is_refused_and_further_ones_are_not(tmp_path):
    task = RankingTask(JUDGMENTS)
    with pytest.raises(UserError, match="titles that are not ranked here, 'zz'"):
        read(tmp_path, "q1 Q0 zz 1 2 t\n", task)
    ranks, notes = read(tmp_path, "q1 Q0 zz 1 2 t\nq1 Q0 d1 2 1 t\n", task)
    assert ranks == [1, None]
    assert notes[1].startswith("1 listed titles are not judged here; only judged titles are ranked")


def saved(folder, queries, titles, ids=None):
    paths = []
    for stem, rows in (("q", queries), ("t", titles)):
        if ids and stem in ids:
            paths.append(folder / f"{stem}.parquet")
            pl.DataFrame({"id": ids[stem], "vector": rows}).write_parquet(paths[-1])
        else:
            paths.append(folder / f"{stem}.npy")
            np.save(paths[-1], np.array(rows))
    return tuple(paths)


def scores(paths, task):
    return vectors("v", paths, task.query_ids, task.doc_ids)


def test_vectors_rank_by_their_cosine_whatever_their_length(task, tmp_path):
    of = {"q1": [2.0, 0.0], "q2": [0.0, 3.0], "d1": [1.0, 0.0], "d2": [5.0, 5.0], "d3": [0.0, 1.0]}
    rows = ([of[one] for one in ids] for ids in (task.query_ids, task.doc_ids))
    found = scores(saved(tmp_path, *rows), task)
    assert relevant_ranks(make_run("v", found, task), task)["rank"].to_list() == [1, 1]
    one, two = task.query_ids.index("q1"), task.doc_ids.index("d2")
    assert found(np.array([one]), np.array([two])) == pytest.approx(np.sqrt(0.5))
    assert found(np.array([one]), None)[0, two] == pytest.approx(np.sqrt(0.5))


def test_vectors_with_the_prior_rank_by_the_cosine_without_it(task, tmp_path):
    # Cosines with q1, as `dssm embed` has them before the last number: 1, .6 and 0. The prior
    # would lift d3 above d1: .6 - 1 = -.4 against 1 - 2 = -1.
    queries, titles = [[1.0, 0, 1], [0, 1, 1]], [[1.0, 0, -2], [0.6, 0.8, -1], [0, 1, -3]]
    found = scores(saved(tmp_path, queries, titles), task)(np.arange(2), None)
    assert found == pytest.approx(np.array([[1, 0.6, 0], [0, 0.8, 1]]), abs=1e-6)
    # The same numbers, one of which is not of length 1 before the last, are anybody's: of the
    # cosine the last number is a part. q1 and d1: (2, 0, 1) and (1, 0, -2).
    queries[0][0] = 2.0
    found = scores(saved(tmp_path, queries, titles), task)(np.arange(1), None)
    assert found[0, 0] == pytest.approx(0.0, abs=1e-6)


def test_ids_in_parquet_say_which_row_is_whose(task, tmp_path):
    paths = saved(
        tmp_path,
        [[0.0, 1.0], [9.0, 9.0], [1.0, 0.0]],
        [[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]],
        {"q": ["q2", "unused", "q1"], "t": ["d3", "d1", "d2"]},
    )
    run = make_run("v", scores(paths, task), task)
    assert relevant_ranks(run, task)["rank"].to_list() == [1, 1]


def test_a_title_in_two_wordings_has_two_rows_of_one_id(tmp_path):
    wordings = [Judgment("q1", "fox", "d1", "red fox", 1), Judgment("q2", "owl", "d1", "fox", 0)]
    task = RankingTask(wordings)
    paths = saved(tmp_path, np.eye(2).tolist(), np.eye(2).tolist(), {"t": ["d1", "d1"]})
    assert scores(paths, task)(np.arange(2), None) == pytest.approx(np.eye(2))


@pytest.mark.parametrize(
    ("queries", "titles", "ids", "message"),
    [
        ([[1.0, 0.0]], [[1.0, 0.0]] * 3, None, r"q.npy has 1 rows and 2 .*a row for each of 2"),
        ([[1.0, 0.0]] * 2, [[1.0]] * 3, None, "2 dimensions and .*t.npy 1"),
        ([[1.0, np.nan]] * 2, [[1.0, 0.0]] * 3, None, "expected finite numbers"),
        ([1.0, 2.0], [[1.0]] * 3, None, r"float64 of the shape \(2,\); expected finite numbers"),
        ([["a"], ["b"]], [[1.0]] * 3, None, "it holds <U1, not numbers"),
        ([[1.0]] * 2, [[1.0]] * 3, {"q": ["q1", "q1"]}, "2 rows and 1 different ids, which lack"),
        ([[1.0]] * 2, [[1.0]] * 3, {"q": ["q1", "x"]}, "which lack 'q2'"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(task, tmp_path, queries, titles, ids, message):
    with pytest.raises(UserError, match=message):
        scores(saved(tmp_path, queries, titles, ids), task)


QUERIES = "query_id\tquery\nq1\that\nq2\tbox\n"


def judged(folder, qrels, queries=QUERIES):
    (folder / "qrels").write_text(qrels)
    (folder / "queries.tsv").write_text(queries)
    return read_judged(folder / "qrels", folder / "queries.tsv", CORPUS)


def test_qrels_get_their_texts_from_the_tables(tmp_path):
    assert judged(tmp_path, "q1 0 d1 2\nq1 0 d2 -1\nq2 0 d3 1\n") == [
        Judgment("q1", "hat", "d1", "red hat", 2.0),
        Judgment("q1", "hat", "d2", "tie", 0.0),
        Judgment("q2", "box", "d3", "blue box", 1.0),
    ]


@pytest.mark.parametrize(
    ("qrels", "queries", "message"),
    [
        ("q7 0 d1 1\n", QUERIES, "judges 'q7', which .*queries.tsv lacks"),
        ("q1 0 d9 1\n", QUERIES, "judges 'd9', which the corpus lacks"),
        ("q1 0 d1 good\n", QUERIES, "qrels:1: grade 'good' is not a number"),
        ("q1 0 d1 1\nq1 0 d1 2\n", QUERIES, "qrels:2: title 'd1' comes twice"),
        ("q1 d1 1\n", QUERIES, "qrels:1: 3 columns"),
        ("q1 0 d1 101\n", QUERIES, "expected a number from 0 to 100"),
        ("q1 0 d1 1\n", QUERIES + "q1\tcap\n", "query_id 'q1' has two texts"),
        ("q1 0 d1 1\n", "query\nhat\n", "missing: query_id"),
    ],
)
def test_qrels_that_do_not_fit_are_refused(tmp_path, qrels, queries, message):
    with pytest.raises(UserError, match=message):
        judged(tmp_path, qrels, queries)
