"""Tables of grades and scores: read by query, off the scale refused, long lists dealt out."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.graded_lists import SCORES, GradedList, deal, read_lists, write_lists
from dssm_tf.text.rules import FOLDED


def table(folder: Path, text: str, name: str = "judged.tsv") -> Path:
    path = folder / name
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
    ("cell", "message"),
    [
        ("5", r"judged.tsv:3: grade '5'; expected a number from 0 to 4"),
        ("-1", r"judged.tsv:3: grade '-1'; expected a number from 0 to 4"),
        ("nan", r"judged.tsv:3: grade 'nan' is not a number"),
        ("good", r"judged.tsv:3: grade 'good' is not a number"),
        ("", r"judged.tsv:3: grade '' is not a number"),
    ],
)
def test_a_grade_off_the_scale_is_refused_with_its_line(tmp_path, cell, message):
    path = table(tmp_path, f"query\ttitle\tgrade\nfox\tRed fox\t4\nfox\tOwl\t{cell}\n")
    with pytest.raises(UserError, match=message):
        read_lists(path, "grade", (0, 4), FOLDED)


@pytest.mark.parametrize("cell", ["nan", "inf", "-inf", "1e9", "much"])
def test_a_score_that_is_no_usable_number_is_refused_with_its_line(tmp_path, cell):
    path = table(tmp_path, f"query\ttitle\tscore\nfox\tRed fox\t-4.5\nfox\tOwl\t{cell}\n")
    with pytest.raises(UserError, match=r"judged.tsv:3: score"):
        read_lists(path, "score", SCORES, FOLDED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "judged.tsv"),
        ("query\ttitle\tgrade\n", "has a header and no score"),
        ("query\ttitle\tgrade\nfox\tRed fox\t1\n", "score"),
        ("query\ttitle\tscore\n\tRed fox\t1\n", "judged.tsv:2: the query is empty"),
    ],
)
def test_a_table_that_holds_no_score_is_refused(tmp_path, text, message):
    if "no score" in message:
        text = text.replace("grade", "score")
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
