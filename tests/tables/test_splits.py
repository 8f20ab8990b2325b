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
    is_held_out,
    judged_by_clicks,
    split_by_query,
    split_by_time,
)
from tests.tables.rows import log_rows

ROWS = [LogRow(query, query, timestamp=time) for query, time in
        (("hat", "30"), ("tie", "4"), ("box", "200"))]  # fmt: skip


def by_time(rows, fraction):
    """The rows of both parts."""
    return tuple(map(log_rows, split_by_time(log_frame(rows), fraction)))


def test_the_latest_rows_are_split_off_by_number_or_by_date():
    earlier, later, *_ = by_time(ROWS, 1 / 3)
    # 4 < 30 < 200 as numbers; as text "200" would come before "30".
    assert [row.query for row in earlier] == ["tie", "hat"]
    assert [row.query for row in later] == ["box"]
    dates = [
        one._replace(timestamp=f"2024-0{n}-01") for n, one in zip((3, 1, 2), ROWS, strict=True)
    ]
    earlier, later, *_ = by_time(dates, 0.5)
    assert [row.query for row in [*earlier, *later]] == ["tie", "box", "hat"]


@given(st.permutations(range(12)))
def test_which_rows_of_equal_time_are_later_does_not_depend_on_their_order(order):
    rows = [LogRow(f"query {n // 2}", "hat", clicks=n, timestamp=str(n // 9)) for n in range(12)]
    expected = by_time(rows, 1 / 2)
    assert by_time([rows[place] for place in order], 1 / 2) == expected
    # Nine rows are of one time: the later ones are not the last in the log or the alphabet.
    assert {row.query for row in expected[1][:3]} != {"query 3", "query 4"}


def test_a_log_without_times_or_too_small_a_share_is_refused():
    with pytest.raises(UserError, match="the time stamp is empty"):
        by_time([*ROWS[:2], ROWS[2]._replace(timestamp="")], 0.5)
    with pytest.raises(UserError, match="3 rows are left to learn from and 0 to judge by"):
        judged_by_clicks(split_by_time(log_frame(ROWS), 0.01), None)


def test_held_out_queries_depend_on_their_words_and_the_purpose():
    assert is_held_out("Red  HAT!", 0.5, "one") == is_held_out("red hat", 0.5, "one")
    one, another = (
        [is_held_out(f"query {number}", 0.25, purpose) for number in range(2000)]
        for purpose in ("one", "another")
    )
    assert one != another
    assert 400 < sum(one) < 600  # 500 are expected; the standard deviation is below 20
    assert all(is_held_out(f"query {number}", 1.0, "one") for number in range(50))
    assert not any(is_held_out(f"query {number}", 0.0, "one") for number in range(50))


def test_text_that_looks_like_time_does_not_put_the_future_into_the_past():
    """As text 02/01/2025 comes before 31/12/2024."""
    cells = ["31/12/2024", "02/01/2025", "30/12/2024", "01/01/2025"]
    rows = [LogRow(cell, "hat", timestamp=cell) for cell in cells]
    with pytest.raises(UserError, match="is neither ISO 8601"):
        by_time(rows, 0.5)


def test_the_size_of_both_parts_is_told():
    rows = [LogRow("hat", "Hat", n, timestamp=f"2024-01-0{n}T10:00Z") for n in (1, 2, 3, 4)]
    assert split_by_time(log_frame(rows), 0.25).summary() == (
        "learned from 3 rows with 6 clicks; judged by 1 rows with 4 clicks"
    )


def test_all_rows_of_a_query_are_on_one_side_when_queries_are_held_out():
    rows = [LogRow(f"query {n % 40}", f"title {n}") for n in range(400)]
    learned, judging, *_ = split_by_query(log_frame(rows), 0.25)
    queries = {*learned["query"]}, {*judging["query"]}
    assert queries[0].isdisjoint(queries[1])
    assert len(learned) + len(judging) == 400
    with pytest.raises(UserError, match="0 rows are left to learn from"):
        judged_by_clicks(split_by_query(log_frame(rows), 1.0), None)


def test_clicks_of_the_other_part_judge_the_titles_of_both():
    learned = [LogRow("hat", title, 9) for title in ("Red Hat", "Tie", "Cup", "Box")]
    clicked = [LogRow("hat", "Cap", 4), LogRow("hat", "Bag", 1)]
    split = Split(log_frame(learned), log_frame(clicked))
    judgments, corpus, _ = judged_by_clicks(split, None)
    titles = ["Bag", "Box", "Cap", "Cup", "Red Hat", "Tie"]
    assert corpus == [(f"t00000{n}", title) for n, title in enumerate(titles, start=1)]
    assert [(one.title, one.grade) for one in judgments] == [("Bag", 1.0), ("Cap", 3.0)]
    with pytest.raises(UserError, match="2 to judge by, 0 of them with a title of the corpus"):
        judged_by_clicks(split, [CorpusTitle("d1", "Red Hat")])


def clicked(*rows):
    """A split whose later part has these rows of query, title, clicks and doc_id."""
    test = [LogRow(query, title, clicks, doc_id=id) for query, title, clicks, id in rows]
    return Split(log_frame([LogRow("learned", "Learned")]), log_frame(test))


def test_clicks_join_the_corpus_by_doc_id_and_take_its_title():
    corpus = [CorpusTitle("d1", "Red Hat (2024)"), CorpusTitle("d2", "Tie")]
    split = clicked(
        ("hat", "Red Hat", 2, "d1"), ("hat", "Tie", 3, ""), ("hat", "Red hat!", 2, "d1")
    )
    judgments, _, notes = judged_by_clicks(split, corpus)
    # Of d1 there are 2 + 2 clicks.
    found = {(one.doc_id, one.title, one.grade) for one in judgments}
    assert found == {("d1", "Red Hat (2024)", 3.0), ("d2", "Tie", 2.0)}
    assert notes == [
        "4 clicks to judge by have another title in the corpus, which counts: doc_id d1 is "
        "'Red Hat' in the log and 'Red Hat (2024)' in the corpus"
    ]


@pytest.mark.parametrize("title", ["RED HAT", "red hat", " Red  Hat! ", "Réd Hat", "ＲＥＤ hat"])
@pytest.mark.parametrize("doc_id", ["", "unknown"])
def test_clicks_without_an_id_of_the_corpus_join_it_by_the_normalized_title(title, doc_id):
    corpus = [CorpusTitle("d0", "Tie"), CorpusTitle("d1", "Red Hat "), CorpusTitle("d2", "red hat")]
    judgments, _, notes = judged_by_clicks(clicked(("hat", title, 1, doc_id)), corpus)
    (judged,) = judgments
    # The very title goes before one that reads the same.
    assert judged.doc_id == ("d2" if title == "red hat" else "d1")
    assert not notes


def test_clicks_that_cannot_be_joined_are_counted_with_examples():
    split = clicked(
        ("a", "Tie", 4, ""), ("b", "Cup", 9, "x7"), ("c", "Box", 2, ""), ("d", "!!", 1, "")
    )
    judgments, _, notes = judged_by_clicks(
        split, [CorpusTitle("d1", "Tie"), CorpusTitle("d2", "?")]
    )
    assert [one.doc_id for one in judgments] == ["d1"]
    assert notes == [
        "12 of 16 clicks to judge by were left out: the corpus has neither their doc_id nor their "
        "title, such as 'Cup' (doc_id x7), 'Box', '!!'"
    ]


def test_without_a_corpus_the_ids_are_those_of_the_log():
    split = clicked(
        ("a", "Old", 1, "d1"),
        ("a", "New", 5, "d1"),
        ("b", "Cup", 2, ""),
        ("c", "Box", 2, "t000001"),
    )
    judgments, corpus, _ = judged_by_clicks(split, None)
    # Of two titles that with most clicks; made ids are none of the log's.
    assert corpus == [
        ("t000001", "Box"), ("t000002", "Cup"), ("t000003", "Learned"), ("d1", "New")
    ]  # fmt: skip
    assert [(one.doc_id, one.title) for one in judgments] == [
        ("d1", "New"), ("t000002", "Cup"), ("t000001", "Box")
    ]  # fmt: skip


def test_a_time_stamp_that_cannot_be_read_is_named_with_its_row(write):
    log = write("log.tsv", "query\ttitle\ttimestamp\na\tA\t2024-01-01\nb\tB\t\n")
    rows, _ = read_logs([log])
    message = r"log\.tsv:3: the time stamp is empty; .*--hold-out-queries"
    with pytest.raises(UserError, match=message):
        split_by_time(rows, 0.5)


def test_a_log_without_time_stamps_is_refused_by_its_header(write):
    log = write("log.tsv", "query\ttitle\tWhen\na\tA\t2024\n")
    message = "no column 'timestamp', which --judge-later needs.*--hold-out-queries.*'When'"
    with pytest.raises(UserError, match=message):
        check_has_times([log], Layout())
    check_has_times([log], Layout(columns=parse_columns("timestamp=when")))
