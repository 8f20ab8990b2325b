"""Splits of a log by time or by query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow, log_frame, read_logs
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.splits import (
    Split,
    check_has_times,
    derive_judgments,
    is_held_out,
    split_by_query,
    split_by_time,
)
from tests.tables.rows import frame_rows

ROWS = [LogRow(query, query, timestamp=time) for query, time in
        (("hat", "30"), ("tie", "4"), ("box", "200"))]  # fmt: skip


def by_time(rows, fraction):
    """The rows of both splits."""
    return tuple(map(frame_rows, split_by_time(log_frame(rows), fraction)))


def test_the_latest_rows_are_split_off_by_number_or_by_date():
    earlier, later, *_ = by_time(ROWS, 1 / 3)
    # 4 < 30 < 200 as numbers; as text "200" would come before "30".
    assert [row.query for row in earlier] == ["tie", "hat"]
    assert [row.query for row in later] == ["box"]
    dates = [
        row._replace(timestamp=f"2024-0{n}-01") for n, row in zip((3, 1, 2), ROWS, strict=True)
    ]
    earlier, later, *_ = by_time(dates, 0.5)
    assert [row.query for row in [*earlier, *later]] == ["tie", "box", "hat"]


@given(st.permutations(range(12)))
def test_the_order_of_rows_of_equal_time_does_not_depend_on_the_log(order):
    rows = [LogRow(f"query {n // 2}", "hat", clicks=n, timestamp=str(n // 9)) for n in range(12)]
    expected = by_time(rows, 1 / 2)
    assert by_time([rows[index] for index in order], 1 / 2) == expected
    # Nine rows have the same time: the later ones are not the last in the log or the alphabet.
    assert {row.query for row in expected[1][:3]} != {"query 3", "query 4"}


def test_a_log_without_times_or_too_small_a_fraction_is_refused():
    with pytest.raises(UserError, match="the timestamp is empty"):
        by_time([*ROWS[:2], ROWS[2]._replace(timestamp="")], 0.5)
    with pytest.raises(UserError, match="3 rows for training and 0 for judgments"):
        derive_judgments(split_by_time(log_frame(ROWS), 0.01), None)


def test_held_out_queries_depend_on_their_words_and_the_purpose():
    assert is_held_out("Red  HAT!", 0.5, "one") == is_held_out("red hat", 0.5, "one")
    held_out, other_purpose = (
        [is_held_out(f"query {number}", 0.25, purpose) for number in range(2000)]
        for purpose in ("one", "another")
    )
    assert held_out != other_purpose
    assert 400 < sum(held_out) < 600  # 500 are expected; the standard deviation is below 20
    assert all(is_held_out(f"query {number}", 1.0, "one") for number in range(50))
    assert not any(is_held_out(f"query {number}", 0.0, "one") for number in range(50))


def test_text_that_is_not_a_time_is_refused_instead_of_ordered_as_text():
    """As text, 02/01/2025 comes before 31/12/2024."""
    cells = ["31/12/2024", "02/01/2025", "30/12/2024", "01/01/2025"]
    rows = [LogRow(cell, "hat", timestamp=cell) for cell in cells]
    with pytest.raises(UserError, match="is neither ISO 8601"):
        by_time(rows, 0.5)


def test_the_summary_has_the_size_of_both_splits():
    rows = [LogRow("hat", "Hat", n, timestamp=f"2024-01-0{n}T10:00Z") for n in (1, 2, 3, 4)]
    assert split_by_time(log_frame(rows), 0.25).summary() == (
        "training: 3 rows with 6 clicks; test: 1 rows with 4 clicks"
    )


def test_all_rows_of_a_query_are_in_the_same_split_if_queries_are_held_out():
    rows = [LogRow(f"query {n % 40}", f"title {n}") for n in range(400)]
    train, test = split_by_query(log_frame(rows), 0.25)
    queries = {*train["query"]}, {*test["query"]}
    assert queries[0].isdisjoint(queries[1])
    assert len(train) + len(test) == 400
    with pytest.raises(UserError, match="0 rows for training"):
        derive_judgments(split_by_query(log_frame(rows), 1.0), None)


def test_clicks_of_the_test_split_grade_the_titles_of_both_splits():
    train = [LogRow("hat", title, 9) for title in ("Red Hat", "Tie", "Cup", "Box")]
    clicked = [LogRow("hat", "Cap", 4), LogRow("hat", "Bag", 1)]
    split = Split(log_frame(train), log_frame(clicked))
    judgments, corpus, _ = derive_judgments(split, None)
    titles = ["Bag", "Box", "Cap", "Cup", "Red Hat", "Tie"]
    assert corpus == [(f"t00000{n}", title) for n, title in enumerate(titles, start=1)]
    assert [(row.title, row.grade) for row in judgments] == [("Bag", 1.0), ("Cap", 3.0)]
    with pytest.raises(UserError, match="2 for judgments, 0 of them with a title of the corpus"):
        derive_judgments(split, [CorpusTitle("d1", "Red Hat")])


def clicked(*rows):
    """A split whose test rows have these values of query, title, clicks and doc_id."""
    test = [LogRow(query, title, clicks, doc_id=id) for query, title, clicks, id in rows]
    return Split(log_frame([LogRow("learned", "Learned")]), log_frame(test))


def test_clicks_join_the_corpus_by_doc_id_and_take_its_title():
    corpus = [CorpusTitle("d1", "Red Hat (2024)"), CorpusTitle("d2", "Tie")]
    split = clicked(
        ("hat", "Red Hat", 2, "d1"), ("hat", "Tie", 3, ""), ("hat", "Red hat!", 2, "d1")
    )
    judgments, _, notes = derive_judgments(split, corpus)
    # d1 has 2 + 2 clicks.
    grades = {(row.doc_id, row.title, row.grade) for row in judgments}
    assert grades == {("d1", "Red Hat (2024)", 3.0), ("d2", "Tie", 2.0)}
    assert notes == [
        "4 test clicks have another title in the corpus, which is used: doc_id d1 is "
        "'Red Hat' in the log and 'Red Hat (2024)' in the corpus"
    ]


@pytest.mark.parametrize("title", ["RED HAT", "red hat", " Red  Hat! ", "Réd Hat", "ＲＥＤ hat"])
@pytest.mark.parametrize("doc_id", ["", "unknown"])
def test_clicks_without_an_id_of_the_corpus_join_it_by_the_normalized_title(title, doc_id):
    corpus = [CorpusTitle("d0", "Tie"), CorpusTitle("d1", "Red Hat "), CorpusTitle("d2", "red hat")]
    judgments, _, notes = derive_judgments(clicked(("hat", title, 1, doc_id)), corpus)
    (judged,) = judgments
    # The equal title takes precedence over one with the same normal form.
    assert judged.doc_id == ("d2" if title == "red hat" else "d1")
    assert not notes


def test_clicks_that_cannot_be_joined_are_counted_with_examples():
    split = clicked(
        ("a", "Tie", 4, ""), ("b", "Cup", 9, "x7"), ("c", "Box", 2, ""), ("d", "!!", 1, "")
    )
    judgments, _, notes = derive_judgments(
        split, [CorpusTitle("d1", "Tie"), CorpusTitle("d2", "?")]
    )
    assert [row.doc_id for row in judgments] == ["d1"]
    assert notes == [
        "12 of 16 test clicks were left out: the corpus has neither their doc_id nor their "
        "title, such as 'Cup' (doc_id x7), 'Box', '!!'"
    ]


def test_without_a_corpus_the_ids_are_those_of_the_log():
    split = clicked(
        ("a", "Old", 1, "d1"),
        ("a", "New", 5, "d1"),
        ("b", "Cup", 2, ""),
        ("c", "Box", 2, "t000001"),
    )
    judgments, corpus, _ = derive_judgments(split, None)
    # Of two titles, the one with more clicks; new ids differ from those of the log.
    assert corpus == [
        ("t000001", "Box"), ("t000002", "Cup"), ("t000003", "Learned"), ("d1", "New")
    ]  # fmt: skip
    assert [(row.doc_id, row.title) for row in judgments] == [
        ("d1", "New"), ("t000002", "Cup"), ("t000001", "Box")
    ]  # fmt: skip


def test_an_unreadable_time_stamp_is_an_error_that_names_its_row(write):
    log = write("log.tsv", "query\ttitle\ttimestamp\na\tA\t2024-01-01\nb\tB\t\n")
    rows, _ = read_logs([log])
    message = r"log\.tsv:3: the timestamp is empty; .*--hold-out-queries"
    with pytest.raises(UserError, match=message):
        split_by_time(rows, 0.5)


def test_a_log_without_time_stamps_is_refused_by_its_header(write):
    log = write("log.tsv", "query\ttitle\tWhen\na\tA\t2024\n")
    message = "no column 'timestamp', which --judge-later needs.*--hold-out-queries.*'When'"
    with pytest.raises(UserError, match=message):
        check_has_times([log], Layout())
    check_has_times([log], Layout(columns=parse_columns("timestamp=when")))
