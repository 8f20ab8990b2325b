"""`examples/judged_log.py`: a log, a corpus, and training and test judgments from judgments."""

import pytest

from dssm_tf.tables.graded_lists import read_lists
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.rules import FOLDED
from examples.judged_log import main
from tests.tables.rows import read_log_rows


@pytest.fixture
def flags(tmp_path):
    """Flags for judgments of sixty queries with five titles each, of grades 0 to 4."""
    path = tmp_path / "j.tsv"
    rows = [
        f"query {query}\tlamp {query} {grade}\t{'acme' if grade < 4 else ''}\t{grade}\n"
        for query in range(60)
        for grade in range(5)
    ]
    path.write_text("".join(["query\tname\tbrand\tgrade\n", *rows]), "utf-8")
    return ["--judgments", str(path), "--title-fields", "name,brand", "--out", f"{tmp_path}/out"]


def titles_of(queries, *grades):
    """The (query, title) pairs of the queries with these grades."""
    return {
        (query, f"lamp {query.split()[1]} {grade}{'␟acme' if grade < 4 else ''}")
        for query in queries
        for grade in grades
    }


def test_training_and_test_queries_are_disjoint_and_good_training_pairs_are_clicks(
    flags, tmp_path, capsys
):
    main([*flags, "--hold-out-queries", "0.25"])
    out = tmp_path / "out"
    lists = list(read_lists(out / "judgments.tsv", "grade", (0, 4), FOLDED))
    held_out = read_judgments(out / "held_out.tsv")
    train_pairs = {(FOLDED.key(graded.query), title) for graded in lists for title in graded.titles}
    test_pairs = {(FOLDED.key(judgment.query), judgment.title) for judgment in held_out}
    train, test = ({query for query, _ in pairs} for pairs in (train_pairs, test_pairs))
    assert len(train) + len(test) == len(train | test) == 60
    assert train
    assert 5 <= len(test) <= 27  # 15, within more than three standard deviations
    assert test_pairs == titles_of(test, *range(5))
    assert train_pairs == titles_of(train, *range(5))
    rows = read_log_rows(out / "clicks.tsv")
    assert {(row.query, row.title) for row in rows} == titles_of(train, 3, 4)
    assert {entry.title for entry in read_corpus(out / "corpus.tsv")} == {
        title for _, title in train_pairs | test_pairs
    }
    assert f"{len(train)} training queries" in capsys.readouterr().out


def test_the_summary_names_max_grade_for_a_larger_scale_of_grades(tmp_path, capsys):
    path = tmp_path / "j.tsv"
    path.write_text("query\ttitle\tgrade\nred fox\ta fox\t7\nred fox\ta hen\t0\n", "utf-8")
    main(["--judgments", str(path), "--out", str(tmp_path / "out")])
    titles = [entry.title for entry in read_corpus(tmp_path / "out" / "corpus.tsv")]
    assert titles == ["a fox", "a hen"]
    assert "train with --set judgments.max_grade=7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--good-from", "5"], "--good-from 5: no training pair has such a grade"),
        (["--hold-out-queries", "1"], "0 training queries"),
        (["--hold-out-queries", "0.00001"], "0 test queries; choose another fraction"),
    ],
)
def test_options_that_leave_a_table_empty_are_an_error_of_one_line(flags, tmp_path, more, message):
    with pytest.raises(SystemExit, match=message):
        main([*flags, *more])
    assert not (tmp_path / "out").exists()
