"""TREC runs of other programs as rows of an evaluation."""

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.runs import relevant_ranks, trec_run
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
    rankings, notes = trec_run("r", read_run(path), task)
    return relevant_ranks(rankings.run, task)["rank"].to_list(), notes


def test_notes_count_the_queries_that_a_run_lacks(task, tmp_path):
    text = "q2 Q0 d3 1 2.5 t\nq2 Q0 d1 2 1.5 t\nq9 Q0 d1 1 1 t\n"
    assert read(tmp_path, text, task) == (
        [None, 1],
        [
            "1 judged queries are not listed, such as 'q1'; they count as 0",
            "1 listed queries are not judged here, such as 'q9'; they are left out",
        ],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 d1 1 inf t\n", "r.trec:1: score 'inf'; expected a number"),
        ("q1 Q0 zz 1 2 t\n", "1 titles that are not ranked here, such as 'zz'"),
        ("7 Q0 d1 1 2 t\n", r"none of the judged query ids; it has \['7'\]"),
    ],
)
def test_a_run_with_other_queries_or_titles_or_infinite_scores_is_refused(
    task, tmp_path, text, message
):
    with pytest.raises(UserError, match=message):
        read(tmp_path, text, task)


def test_without_a_corpus_a_run_needs_at_least_one_judged_title(tmp_path):
    task = RankingTask(JUDGMENTS)
    with pytest.raises(UserError, match="titles that are not ranked here, such as 'zz'"):
        read(tmp_path, "q1 Q0 zz 1 2 t\n", task)
    ranks, notes = read(tmp_path, "q1 Q0 zz 1 2 t\nq1 Q0 d1 2 1 t\n", task)
    assert ranks == [1, None]
    assert notes[1] == (
        "1 listed titles are not judged here, such as 'zz'; only judged titles are ranked"
    )


def test_ids_that_differ_in_leading_zeros_only_are_counted_and_named(tmp_path):
    judgments = [Judgment("q1", "hat", "7", "hat", 1.0), Judgment("q1", "hat", "8", "box", 1.0)]
    note = "differ from judged ones in case or leading zeros only, such as '007' and '7'"
    ranks, notes = read(tmp_path, "q1 Q0 007 1 2 t\nq1 Q0 8 2 1 t\n", RankingTask(judgments))
    assert {*ranks} == {None, 1}
    assert notes[1] == f"1 listed ids {note}"
    corpus = [CorpusTitle("7", "hat"), CorpusTitle("8", "box")]
    with pytest.raises(UserError, match=note):
        read(tmp_path, "q1 Q0 007 1 2 t\n", RankingTask(judgments, corpus))
    with pytest.raises(UserError, match="such as 'Q01' and 'q1'"):
        read(tmp_path, "Q01 Q0 7 1 2 t\n", RankingTask(judgments))
