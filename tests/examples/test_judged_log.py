"""`examples/judged_log.py`: judgments alone as a log, a corpus, and judgments on both sides."""

from __future__ import annotations

import pytest

from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.graded_lists import read_lists
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.rules import FOLDED
from examples.judged_log import main


@pytest.fixture
def judged(tmp_path):
    path = tmp_path / "j.tsv"
    rows = [f"query {q}\ttitle {q} {t}\t{t}" for q in range(60) for t in range(5)]
    path.write_text("\n".join(["query\ttitle\tgrade", *rows]) + "\n", "utf-8")
    return path


def test_no_query_is_on_both_sides_and_good_pairs_of_one_are_clicks(judged, tmp_path, capsys):
    out = tmp_path / "out"
    main(["--judgments", str(judged), "--out", str(out), "--hold-out-queries", "0.25"])
    learned = {
        FOLDED.key(one.query) for one in read_lists(out / "judgments.tsv", "grade", (0, 4), FOLDED)
    }
    measured = {FOLDED.key(one.query) for one in read_judgments(out / "held_out.tsv")}
    assert len(learned) + len(measured) == 60
    assert learned
    assert 5 <= len(measured) <= 27  # 15, more than three standard deviations
    rows, _ = read_logs([out / "clicks.tsv"])
    assert {(row.query, row.title) for row in rows} == {
        (query, f"title {query.split()[1]} {grade}") for query in learned for grade in (3, 4)
    }
    assert len(read_corpus(out / "corpus.tsv")) == 300
    assert f"{len(learned)} queries to learn from" in capsys.readouterr().out


def test_a_scale_beyond_the_usual_one_is_said(tmp_path, capsys):
    path = tmp_path / "j.tsv"
    path.write_text("query\ttitle\tgrade\nred fox\ta fox\t7\nred fox\ta hen\t0\n", "utf-8")
    main(["--judgments", str(path), "--out", str(tmp_path / "out")])
    assert "train with --set judgments.max_grade=7" in capsys.readouterr().out


def test_titles_of_several_fields_become_one_column(tmp_path):
    path = tmp_path / "j.tsv"
    rows = [f"query {q}\tlamp {q} {t}\tacme\t{t}" for q in range(60) for t in range(4)]
    rows.append("query 0\tlamp without a brand\t\t3")
    path.write_text("\n".join(["query\tname\tbrand\tgrade", *rows]) + "\n", "utf-8")
    out = tmp_path / "out"
    flags = ["--judgments", str(path), "--title-fields", "name,brand", "--hold-out-queries", "0.3"]
    main([*flags, "--out", str(out)])
    learned = read_lists(out / "judgments.tsv", "grade", (0, 4), FOLDED)
    measured = read_judgments(out / "held_out.tsv")
    titles = {title for one in learned for title in one.titles} | {one.title for one in measured}
    expected = {f"lamp {q} {t}␟acme" for q in range(60) for t in range(4)}
    assert titles == expected | {"lamp without a brand"}
    assert titles == {one.title for one in read_corpus(out / "corpus.tsv")}
    rows, _ = read_logs([out / "clicks.tsv"])
    assert {row.title for row in rows} <= titles


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--good-from", "5"], "--good-from 5: no pair to learn from has such a grade"),
        (["--hold-out-queries", "1"], "0 queries are left to learn from"),
        (["--hold-out-queries", "0.00001"], "0 to measure with; choose another share"),
    ],
)
def test_what_would_leave_a_part_empty_is_one_line(judged, tmp_path, flags, message):
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match=message):
        main(["--judgments", str(judged), "--out", str(out), *flags])
    assert not out.exists()
