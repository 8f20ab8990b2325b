"""Tables of grades and scores: read by query, off the scale refused, long lists dealt out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.graded_lists import SCORES, GradedList, deal, read_lists, write_lists
from dssm_tf.text.rules import FOLDED


def table(folder: Path, text: str) -> Path:
    path = folder / "judged.tsv"
    path.write_text(text, "utf-8")
    return path


def test_rows_of_a_query_are_one_list_whatever_their_order_and_further_columns(tmp_path):
    path = table(
        tmp_path,
        "grade\tid\ttitle\tquery\n3\tq1\tRed fox\tfox\n0\tq2\tOwl\tbird\n1\tq1\tFox den\tFOX!\n",
    )
    assert read_lists(path, "grade", (0, 4), FOLDED) == [
        GradedList("fox", ("Red fox", "Fox den"), (3.0, 1.0)),
        GradedList("bird", ("Owl",), (0.0,)),
    ]


def test_a_pair_of_several_raters_has_the_mean_of_their_grades(tmp_path):
    path = table(tmp_path, "query\ttitle\tgrade\nfox\tRed fox\t2\nfox\tred FOX.\t3\n")
    assert read_lists(path, "grade", (0, 4), FOLDED) == [GradedList("fox", ("Red fox",), (2.5,))]


@pytest.mark.parametrize(
    ("column", "scale", "cell", "message"),
    [
        ("grade", (0, 4), "5", r"grade '5'; expected a number from 0 to 4"),
        ("grade", (0, 4), "-1", r"grade '-1'; expected a number from 0 to 4"),
        ("grade", (0, 4), "good", r"grade 'good' is not a number"),
        ("score", SCORES, "nan", r"score 'nan' is not a number"),
        ("score", SCORES, "inf", r"score 'inf'; expected"),
        ("score", SCORES, "-inf", r"score '-inf'; expected"),
        ("score", SCORES, "1e9", r"score '1e9'; expected"),
    ],
)
def test_a_number_off_the_scale_is_refused_with_its_line(tmp_path, column, scale, cell, message):
    path = table(tmp_path, f"query\ttitle\t{column}\nfox\tRed fox\t4\nfox\tOwl\t{cell}\n")
    with pytest.raises(UserError, match=rf"judged.tsv:3: {message}"):
        read_lists(path, column, scale, FOLDED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query\ttitle\tscore\n", "has a header and no score"),
        ("query\ttitle\tgrade\nfox\tRed fox\t1\n", "missing: score"),
        ("query\ttitle\tscore\n\tRed fox\t1\n", "judged.tsv:2: the query is empty"),
    ],
)
def test_a_table_that_holds_no_score_is_refused(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        read_lists(table(tmp_path, text), "score", SCORES, FOLDED)


def test_what_is_written_is_read_back(tmp_path):
    lists = [
        GradedList("fox", ("Red fox", "Owl"), (0.25, -3.0)),
        GradedList("owl", ("Owl",), (1.0,)),
    ]
    write_lists(tmp_path / "scores.tsv.gz", "score", lists)
    assert read_lists(tmp_path / "scores.tsv.gz", "score", SCORES, FOLDED) == lists


def test_a_long_list_is_dealt_out_so_that_each_hand_has_good_and_bad_titles():
    one = GradedList("q", ("a", "b", "c", "d", "e"), (0.0, 3.0, 1.0, 4.0, 2.0))
    assert deal(one, 5) == [one]
    assert deal(one, 4) == [
        GradedList("q", ("d", "e", "a"), (4.0, 2.0, 0.0)),
        GradedList("q", ("b", "c"), (3.0, 1.0)),
    ]
