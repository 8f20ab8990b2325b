"""`examples/judged_log.py`: judgments alone as a log, a corpus, and judgments on both sides."""

import pytest

from dssm_tf.tables.graded_lists import read_lists
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.rules import FOLDED
from examples.judged_log import main
from tests.tables.rows import logged


@pytest.fixture
def flags(tmp_path):
    """Names sixty queries with five titles each, graded 0 to 4; the best have no brand."""
    path = tmp_path / "j.tsv"
    rows = [
        f"query {query}\tlamp {query} {grade}\t{'acme' if grade < 4 else ''}\t{grade}\n"
        for query in range(60)
        for grade in range(5)
    ]
    path.write_text("".join(["query\tname\tbrand\tgrade\n", *rows]), "utf-8")
    return ["--judgments", str(path), "--title-fields", "name,brand", "--out", f"{tmp_path}/out"]


def titles_of(queries, *grades):
    """What a text of a query must stand beside, by grade."""
    return {
        (query, f"lamp {query.split()[1]} {grade}{'␟acme' if grade < 4 else ''}")
        for query in queries
        for grade in grades
    }


def test_no_query_is_on_both_sides_and_good_pairs_of_one_are_clicks(flags, tmp_path, capsys):
    main([*flags, "--hold-out-queries", "0.25"])
    out = tmp_path / "out"
    lists = list(read_lists(out / "judgments.tsv", "grade", (0, 4), FOLDED))
    learned = {FOLDED.key(one.query) for one in lists}
    judgments = {(FOLDED.key(one.query), one.title) for one in read_judgments(out / "held_out.tsv")}
    measured = {query for query, _ in judgments}
    assert len(learned) + len(measured) == len(learned | measured) == 60
    assert learned
    assert 5 <= len(measured) <= 27  # 15, more than three standard deviations
    assert judgments == titles_of(measured, *range(5))
    found = {(FOLDED.key(one.query), title) for one in lists for title in one.titles}
    assert found == titles_of(learned, *range(5))
    rows = logged(out / "clicks.tsv")
    assert {(row.query, row.title) for row in rows} == titles_of(learned, 3, 4)
    assert {one.title for one in read_corpus(out / "corpus.tsv")} == {
        title for _, title in found | judgments
    }
    assert f"{len(learned)} queries to learn from" in capsys.readouterr().out


def test_a_scale_beyond_the_usual_one_is_said(tmp_path, capsys):
    path = tmp_path / "j.tsv"
    path.write_text("query\ttitle\tgrade\nred fox\ta fox\t7\nred fox\ta hen\t0\n", "utf-8")
    main(["--judgments", str(path), "--out", str(tmp_path / "out")])
    assert [one.title for one in read_corpus(tmp_path / "out" / "corpus.tsv")] == ["a fox", "a hen"]
    assert "train with --set judgments.max_grade=7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--good-from", "5"], "--good-from 5: no pair to learn from has such a grade"),
        (["--hold-out-queries", "1"], "0 queries are left to learn from"),
        (["--hold-out-queries", "0.00001"], "0 to measure with; choose another share"),
    ],
)
def test_what_would_leave_a_part_empty_is_one_line(flags, tmp_path, more, message):
    with pytest.raises(SystemExit, match=message):
        main([*flags, *more])
    assert not (tmp_path / "out").exists()
