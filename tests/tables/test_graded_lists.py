"""Tables of grades and scores are read by query; long lists are split into chunks."""

from __future__ import annotations

from dssm_tf.tables.graded_lists import (
    SCORE_LIMITS,
    GradedList,
    chunk_list,
    read_lists,
    write_lists,
)
from dssm_tf.text.rules import FOLDED


def test_rows_of_a_query_become_a_list_in_any_order_and_with_other_columns(write):
    path = write(
        "judged.tsv",
        "grade\tid\ttitle\tquery\n3\tq1\tRed fox\tfox\n0\tq2\tOwl\tbird\n1\tq1\tFox den\tFOX!\n",
    )
    assert read_lists(path, "grade", (0, 4), FOLDED) == [
        GradedList("fox", ("Red fox", "Fox den"), (3.0, 1.0)),
        GradedList("bird", ("Owl",), (0.0,)),
    ]


def test_a_repeated_pair_has_the_mean_of_its_grades(write):
    path = write("judged.tsv", "query\ttitle\tgrade\nfox\tRed fox\t2\nfox\tred FOX.\t3\n")
    assert read_lists(path, "grade", (0, 4), FOLDED) == [GradedList("fox", ("Red fox",), (2.5,))]


def test_written_lists_read_back(tmp_path):
    lists = [
        GradedList("fox", ("Red fox", "Owl"), (0.25, -3.0)),
        GradedList("owl", ("Owl",), (1.0,)),
    ]
    write_lists(tmp_path / "scores.tsv.gz", "score", lists)
    assert read_lists(tmp_path / "scores.tsv.gz", "score", SCORE_LIMITS, FOLDED) == lists


def test_each_chunk_of_a_long_list_has_good_and_bad_titles():
    graded = GradedList("q", ("a", "b", "c", "d", "e"), (0.0, 3.0, 1.0, 4.0, 2.0))
    assert chunk_list(graded, 5) == [graded]
    assert chunk_list(graded, 4) == [
        GradedList("q", ("d", "e", "a"), (4.0, 2.0, 0.0)),
        GradedList("q", ("b", "c"), (3.0, 1.0)),
    ]
