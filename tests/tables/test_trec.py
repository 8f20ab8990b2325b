import pytest

from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.judgments import Judgment
from dssm_tf.tables.trec import qrels_line, read_run, write_qrels, write_run


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
    assert qrels_line("q1 0 b 1.33") == ("q1", "b", 1.33)
    assert qrels_line("q1 0 a -2") == ("q1", "a", 0.0)


@pytest.mark.parametrize("line", ["q1 0 b 101", "q1 a 1"])
def test_qrels_above_the_largest_grade_and_with_other_columns_are_refused(line):
    with pytest.raises(BadRow):
        qrels_line(line)
