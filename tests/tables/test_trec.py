"""TREC runs and qrels, written and read."""

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.read import read
from dssm_tf.tables.trec import QRELS, QRELS_NAMES, read_run, write_qrels, write_run


def qrels(path):
    return read(path, QRELS, Layout(names=QRELS_NAMES), "trec").rows()


def test_a_run_is_written_best_first_and_read_back(tmp_path):
    path = tmp_path / "lstm.trec"
    write_run(path, {"q1": {"a": 0.5, "b": 2.0, "c": 0.5}}, tag="my lstm")
    assert path.read_text() == (
        "q1 Q0 b 1 2 my%20lstm\nq1 Q0 a 2 0.5 my%20lstm\nq1 Q0 c 3 0.5 my%20lstm\n"
    )
    assert read_run(path) == {"q1": {"a": 0.5, "b": 2.0, "c": 0.5}}


def test_qrels_keep_fractions_and_negative_grades_are_read_as_zero(tmp_path):
    path = tmp_path / "qrels.trec"
    write_qrels(path, [Judgment("q1", "q", "a", "t", 2.0), Judgment("q1", "q", "b", "t", 1.33)])
    assert path.read_text() == "q1 0 a 2\nq1 0 b 1.33\n"
    path.write_text("q1 0 b 1.33\n\nq1\t0  a -2\n")
    assert qrels(path) == [("q1", "b", 1.33, 1), ("q1", "a", 0.0, 3)]


@pytest.mark.parametrize("line", ["q1 0 b 101", "q1 a 1"])
def test_qrels_above_the_largest_grade_and_with_other_columns_are_refused(write, line):
    with pytest.raises(
        UserError, match=r"qrels\.txt:1: (grade '101'|3 columns; expected query_id 0)"
    ):
        qrels(write("qrels.txt", line))
