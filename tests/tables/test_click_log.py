"""Rows of click logs: what is read, what is rejected, and why."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import (
    MAX_COUNT,
    MAX_LINE_BYTES,
    BadRow,
    Columns,
    LogRow,
    Reject,
    csv_rows,
    jsonl_rows,
    numbered,
    parse_count,
    reject,
    tsv_rows,
    write_click_log,
)


def tsv(*lines: bytes, header: str = "query\ttitle\tclicks"):
    columns = Columns.of(header.split("\t"), "log.tsv")
    return list(tsv_rows(enumerate(lines, start=2), columns))


def reasons(rows):
    return [row.reason for row in rows if isinstance(row, Reject)]


def test_a_row_is_found_by_the_names_of_its_columns():
    header = "doc_id\tTITLE\tsession_id\tclicks\tquery\timpressions"
    rows = tsv(b"d1\tHalo: Reach\ts9\t3\thalo\t20", header=header)
    assert rows == [LogRow("halo", "Halo: Reach", clicks=3, impressions=20, session="s9")]


def test_clicks_are_one_where_the_log_does_not_count_them():
    assert tsv(b"halo\tHalo: Reach", header="query\ttitle") == [LogRow("halo", "Halo: Reach", 1)]
    assert tsv(b"halo\tHalo: Reach\t") == [LogRow("halo", "Halo: Reach", 1)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"a\tb", "wrong column count"),
        (b"a\tb\t1\t2", "wrong column count"),
        (b"  \tb\t1", "empty query"),
        (b"a\t\t1", "empty title"),
        (b"caf\xe9\tb\t1", "bad UTF-8"),
        (b"a\tb\tmany", "clicks is not a number"),
        (b"a\tb\t1_000", "clicks is not a number"),
        (b"a\tb\t-1", "clicks is negative"),
        (b"a\tb\tnan", "clicks is not finite"),
        (b"a\tb\tinf", "clicks is not finite"),
        (b"a\tb\t2.5", "clicks is not a whole number"),
        (b"a\tb\t" + b"9" * 5000, "clicks is not finite"),
        (b"a\tb\t1e300", "clicks is too large"),
        (b"a" * (MAX_LINE_BYTES + 1) + b"\tb\t1", "line too long"),
    ],
)
def test_a_malformed_row_is_rejected_with_its_line_and_reason(line, reason):
    good = b"halo\tHalo: Reach\t1"
    before, rejected, after = tsv(good, line, good)
    assert (rejected.line, rejected.reason) == (3, reason)
    assert before == after == LogRow("halo", "Halo: Reach", 1)


def test_windows_line_ends_and_blank_lines_are_no_part_of_a_row():
    assert tsv(b"halo\tHalo: Reach\t2\r", b"", b"\r") == [LogRow("halo", "Halo: Reach", 2)]


def test_the_smallest_and_the_largest_count_are_kept():
    assert parse_count("0", "clicks", 1) == 0
    assert parse_count(str(MAX_COUNT), "clicks", 1) == MAX_COUNT
    with pytest.raises(BadRow):
        parse_count(str(MAX_COUNT + 1), "clicks", 1)


@given(st.integers(0, MAX_COUNT), st.sampled_from(["{}", " {} ", "{}.0", "+{}", "0{}"]))
def test_a_whole_number_is_read_however_it_is_written(number, form):
    assert parse_count(form.format(number), "clicks", 1) == number


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none()))
def test_any_value_is_a_count_or_a_bad_row(value):
    try:
        number = parse_count(value, "clicks", 1)
    except BadRow:
        return
    assert isinstance(number, int)
    assert 0 <= number <= MAX_COUNT


def test_a_header_without_query_or_title_lists_what_it_has():
    with pytest.raises(UserError, match=r"log.tsv has the columns 'q', 'title'.*missing: query"):
        Columns.of(["q", "title"], "log.tsv")
    with pytest.raises(UserError, match="more than once"):
        Columns.of(["query", "title", "query"], "log.tsv")


def test_a_byte_order_mark_is_no_part_of_the_first_name():
    assert Columns.of(["\ufeffquery", "Title "], "log.tsv").names == ("query", "title")


def test_csv_fields_may_hold_commas_quotes_and_line_ends():
    lines = [
        b"query,title,clicks\n",
        b'"ice, cream","say ""hi""",2\n',
        b'cold,"two\n',
        b'lines",1\n',
        b"halo,Halo: Reach,1\n",
    ]
    assert list(csv_rows(lines)) == [
        LogRow("ice, cream", 'say "hi"', 2),
        LogRow("cold", "two lines", 1),
        LogRow("halo", "Halo: Reach", 1),
    ]


def test_a_csv_reject_names_the_line_where_its_row_starts():
    lines = [b"query,title\n", b'a,"b\n', b'c"\n', b"caf\xe9,b\n", b"a,b,c\n"]
    rejects = [row for row in csv_rows(lines) if isinstance(row, Reject)]
    assert [(one.line, one.reason) for one in rejects] == [
        (4, "bad UTF-8"),
        (5, "wrong column count"),
    ]


def test_a_quote_that_never_closes_costs_a_reject_and_not_the_job():
    lines = [b"query,title\n", b'a,"b\n', *[b"x" * 1000 + b"\n"] * 200, b"halo,Halo: Reach\n"]
    rows = list(csv_rows(lines))
    assert "bad CSV" in reasons(rows)
    assert rows[-1] == LogRow("halo", "Halo: Reach", 1)


def test_json_lines_are_read_by_key_and_checked():
    rows = list(
        jsonl_rows(
            enumerate(
                [
                    b'{"title": "Halo", "query": "halo", "clicks": 2, "session_id": 7}',
                    b"",
                    b'{"query": "halo"}',
                    b'{"query": "halo", "title": null}',
                    b'{"query": 5, "title": "x"}',
                    b'{"query": "a", "title": "b", "clicks": true}',
                    b'{"query": "a", "title": "b", "clicks": NaN}',
                    b'{"query": "\\ud800", "title": "b"}',
                    b"[1]",
                    b"{",
                    b"[" * 5000,
                ],
                start=1,
            )
        )
    )
    assert rows[0] == LogRow("halo", "Halo", 2, session="7")
    assert reasons(rows) == [
        "no title", "empty title", "query is not text", "clicks is not a number",
        "clicks is not finite", "bad UTF-8", "not a JSON object", "not JSON", "not JSON",
    ]  # fmt: skip
    assert [row.line for row in rows[1:]] == [3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_tabs_and_line_ends_inside_a_text_become_spaces():
    line = json.dumps({"query": "a\tb\r\nc", "title": " t "}).encode()
    assert list(jsonl_rows([(1, line)])) == [LogRow("a b  c", "t", 1)]


@given(
    st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=20),
    st.integers(1, 7),
)
def test_lines_are_the_same_however_the_file_is_cut_in_blocks(lines, size):
    data = b"".join(line + b"\n" for line in lines)
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(numbered(blocks)) == list(enumerate(lines, start=1))


def test_an_endless_line_is_never_held_whole(monkeypatch):
    monkeypatch.setattr("dssm_tf.tables.click_log.MAX_LINE_BYTES", 100)
    found = list(numbered([b"x" * 60] * 50 + [b"\nnext\n"]))
    assert [number for number, _ in found] == [1, 2]
    assert 100 < len(found[0][1]) < 200
    assert found[1][1] == b"next"


@given(st.one_of(st.text(), st.binary()))
def test_the_text_of_a_reject_is_one_short_line_of_utf8(text):
    found = reject(1, "reason", text).text
    assert len(found.encode()) <= 20 * 500
    assert not set(found) & {"\t", "\n", "\r"}


def test_a_written_log_reads_back(tmp_path):
    path = tmp_path / "log.tsv"
    assert write_click_log(path, [("a\tb", "The  Title"), ("c", "d", 3)]) == 2
    header, *lines = path.read_bytes().split(b"\n")
    columns = Columns.of(header.decode().split("\t"), str(path))
    rows = list(tsv_rows(enumerate(lines, start=2), columns))
    assert rows == [LogRow("a b", "The  Title", 1), LogRow("c", "d", 3)]
