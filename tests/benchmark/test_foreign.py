import numpy as np
import pytest

from dssm_tf.benchmark.foreign import (
    embedding_source,
    judgments_of_qrels,
    run_source,
)
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import measure
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment

JUDGMENTS = [
    Judgment("q1", "hat", "d1", "red hat", 1.0),
    Judgment("q2", "box", "d3", "blue box", 2.0),
]
CORPUS = [CorpusTitle(f"d{n}", t) for n, t in ((1, "red hat"), (2, "tie"), (3, "blue box"))]


@pytest.fixture
def task():
    return RankingTask(JUDGMENTS, CORPUS)


def ranks(source, task):
    return measure("s", source, task).ranks.rank.tolist()


def test_a_run_says_how_many_queries_it_lacks(task, tmp_path):
    path = tmp_path / "r.trec"
    path.write_text("q2 Q0 d3 1 2.5 t\nq2 Q0 d1 2 1.5 t\nq9 Q0 d1 1 1 t\n")
    found = run_source("r", path, task)
    assert ranks(found.source, task) == [0, 1]
    assert found.about["notes"] == [
        "lists nothing for 1 of 2 judged queries; they count as 0",
        "lists 1 queries that are not judged here, 'q9' for one; they are left out",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 d1 1 nan t\n", "r.trec:1: score 'nan' is not a number"),
        ("q1 Q0 d1 1 inf t\n", "score of 'd1' for query 'q1' is inf"),
        ("q1 Q0 d1 1 high t\n", "r.trec:1: score 'high' is not a number"),
        ("q1 Q0 d1 1\n", "r.trec:1: 4 columns; expected query_id Q0 doc_id rank score tag"),
        ("q1 Q0 d1 1 2 t\nq1 Q0 d1 2 1 t\n", "r.trec:2: title 'd1' comes twice for query 'q1'"),
        ("q1 Q0 zz 1 2 t\n", "1 titles that the corpus lacks, 'zz'"),
        ("7 Q0 d1 1 2 t\n", r"none of the judged query ids; it has \['7'\]"),
        ("", "r.trec is empty"),
    ],
)
def test_a_malformed_run_is_refused_with_its_place(task, tmp_path, text, message):
    path = tmp_path / "r.trec"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        run_source("r", path, task)


def test_without_a_corpus_a_run_of_other_titles_is_refused_and_further_ones_are_not(tmp_path):
    task = RankingTask(JUDGMENTS)
    path = tmp_path / "r.trec"
    path.write_text("q1 Q0 zz 1 2 t\n")
    with pytest.raises(UserError, match="lists none of the judged titles"):
        run_source("r", path, task)
    path.write_text("q1 Q0 zz 1 2 t\nq1 Q0 d1 2 1 t\n")
    found = run_source("r", path, task)
    assert ranks(found.source, task) == [1, 0]
    assert found.about["notes"][1] == (
        "lists 1 titles that are not judged here, 'zz' for one; only judged titles are ranked"
    )


def vectors(folder, queries, titles, ids=None):
    np.save(folder / "q.npy", np.array(queries))
    np.save(folder / "t.npy", np.array(titles))
    for stem, names in (ids or {}).items():
        (folder / f"{stem}.ids.txt").write_text("\n".join(names) + "\n")
    return folder / "q.npy", folder / "t.npy"


def test_vectors_rank_by_cosine_whatever_their_length(task, tmp_path):
    assert task.doc_ids == ("d1", "d3", "d2")  # the order of titles.tsv
    # q1 points as d1 does, which is short; d3 is long and at an angle of 45 degrees to both.
    paths = vectors(tmp_path, [[2.0, 0.0], [1.0, 1.0]], [[0.1, 0.0], [9.0, 9.0], [0.0, 0.0]])
    source = embedding_source("v", paths, task.query_ids, task.doc_ids).source
    scores = source.block(np.arange(2), None)
    assert scores[0] == pytest.approx([1, np.sqrt(0.5), 0], abs=1e-6)
    assert ranks(source, task) == [1, 1]
    assert source.block(np.array([1]), np.array([1]))[0] == pytest.approx([1.0])


def test_vectors_with_the_prior_rank_by_the_cosine_without_it(task, tmp_path):
    # Cosines with q1, as `dssm embed` has them before the last number: 1, .6 and 0. The prior
    # would lift d3 above d1: .6 - 1 = -.4 against 1 - 2 = -1.
    queries, titles = [[1.0, 0, 1], [0, 1, 1]], [[1.0, 0, -2], [0.6, 0.8, -1], [0, 1, -3]]
    source = embedding_source(
        "e", vectors(tmp_path, queries, titles), task.query_ids, task.doc_ids
    ).source
    scores = source.block(np.arange(2), None)
    assert scores == pytest.approx(np.array([[1, 0.6, 0], [0, 0.8, 1]]), abs=1e-6)
    # The same numbers, one of which is not of length 1 before the last, are anybody's: of the
    # cosine the last number is a part. q1 and d1: (2, 0, 1) and (1, 0, -2).
    queries[0][0] = 2.0
    source = embedding_source(
        "e", vectors(tmp_path, queries, titles), task.query_ids, task.doc_ids
    ).source
    assert source.block(np.arange(1), None)[0, 0] == pytest.approx(0.0, abs=1e-6)


def test_ids_beside_a_file_say_which_row_is_whose(task, tmp_path):
    paths = vectors(
        tmp_path,
        [[0.0, 1.0], [9.0, 9.0], [1.0, 0.0]],
        [[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]],
        {"q": ["q2", "unused", "q1"], "t": ["d3", "d1", "d2"]},
    )
    assert ranks(embedding_source("v", paths, task.query_ids, task.doc_ids).source, task) == [1, 1]


@pytest.mark.parametrize("ids", [None, {"t": ["d1", "d1"]}])
def test_a_title_in_two_wordings_has_two_rows_of_one_id(tmp_path, ids):
    wordings = [Judgment("q1", "fox", "d1", "red fox", 1), Judgment("q2", "owl", "d1", "fox", 0)]
    task = RankingTask(wordings)
    assert task.doc_ids == ("d1", "d1")
    paths = vectors(tmp_path, [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]], ids)
    assert embedding_source("v", paths, task.query_ids, task.doc_ids).source.block(
        np.arange(2), None
    ) == pytest.approx(np.eye(2))


@pytest.mark.parametrize(
    ("queries", "titles", "ids", "message"),
    [
        ([[1.0, 0.0]], [[1.0, 0.0]] * 3, None, r"q.npy has 1 rows; expected 2.*queries.tsv"),
        ([[1.0, 0.0]] * 2, [[1.0]] * 3, None, "2 dimensions and .*t.npy 1"),
        ([[1.0, np.nan]] * 2, [[1.0, 0.0]] * 3, None, "row 0 holds a number that is not finite"),
        ([1.0, 2.0], [[1.0]] * 3, None, r"float64 of the shape \(2,\); expected numbers"),
        ([["a"], ["b"]], [[1.0]] * 3, None, "it holds <U1, not numbers"),
        ([[1.0]] * 2, [[1.0]] * 3, {"q": ["q1", "q1"]}, "2 ids, 1 different ones, for 2 rows"),
        ([[1.0]] * 2, [[1.0]] * 3, {"q": ["q1", "x"]}, "lacks 1 ids that are needed, 'q2'"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(task, tmp_path, queries, titles, ids, message):
    paths = vectors(tmp_path, queries, titles, ids)
    with pytest.raises(UserError, match=message):
        embedding_source("v", paths, task.query_ids, task.doc_ids)


def test_a_file_that_is_no_array_is_refused(task, tmp_path):
    (tmp_path / "q.npy").write_text("not numbers")
    with pytest.raises(UserError, match=r"q\.npy is no array of numbers"):
        embedding_source(
            "v", (tmp_path / "q.npy", tmp_path / "q.npy"), task.query_ids, task.doc_ids
        )


QUERIES = "query_id\tquery\nq1\that\nq2\tbox\n"


def test_qrels_get_their_texts_from_the_tables(tmp_path):
    (tmp_path / "qrels").write_text("q1 0 d1 2\nq1 0 d2 -1\nq2 0 d3 1\n")
    (tmp_path / "queries.tsv").write_text(QUERIES)
    assert judgments_of_qrels(tmp_path / "qrels", tmp_path / "queries.tsv", CORPUS) == [
        Judgment("q1", "hat", "d1", "red hat", 2.0),
        Judgment("q1", "hat", "d2", "tie", 0.0),
        Judgment("q2", "box", "d3", "blue box", 1.0),
    ]


@pytest.mark.parametrize(
    ("qrels", "queries", "message"),
    [
        ("q7 0 d1 1\n", QUERIES, "judges the query 'q7', which .*queries.tsv lacks"),
        ("q1 0 d9 1\n", QUERIES, "judges 'd9' for query 'q1', which the corpus lacks"),
        ("q1 0 d1 good\n", QUERIES, "qrels:1: grade 'good' is not a number"),
        ("q1 0 d1 nan\n", QUERIES, "qrels:1: grade 'nan' is not a number"),
        ("q1 0 d1 1\nq1 0 d1 2\n", QUERIES, "qrels:2: title 'd1' comes twice"),
        ("q1 d1 1\n", QUERIES, "qrels:1: 3 columns"),
        ("q1 0 d1 1\n", QUERIES + "q1\tcap\n", "query_id 'q1' has two texts"),
        ("q1 0 d1 1\n", "query\nhat\n", "no column 'query_id'"),
    ],
)
def test_qrels_that_do_not_fit_are_refused(tmp_path, qrels, queries, message):
    (tmp_path / "qrels").write_text(qrels)
    (tmp_path / "queries.tsv").write_text(queries)
    with pytest.raises(UserError, match=message):
        judgments_of_qrels(tmp_path / "qrels", tmp_path / "queries.tsv", CORPUS)


@pytest.mark.parametrize("grade", ["101", "inf"])
def test_a_grade_that_no_gain_can_hold_is_refused(tmp_path, grade):
    (tmp_path / "qrels").write_text(f"q1 0 d1 {grade}\n")
    (tmp_path / "queries.tsv").write_text("query_id\tquery\nq1\that\n")
    with pytest.raises(
        UserError, match=rf"qrels:1: grade {grade}\S*; expected a number from 0 to 100"
    ):
        judgments_of_qrels(tmp_path / "qrels", tmp_path / "queries.tsv", CORPUS)
