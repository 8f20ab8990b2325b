"""Bad rows are rejects with their line and reason, and reading continues after them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.layout import Layout, Reject, reject
from dssm_tf.tables.lines import Lines
from dssm_tf.tables.read import read
from tests.tables.rows import cells_and_rejects, read_cells


def test_bad_rows_are_rejects_with_line_and_reason_unless_strict(write):
    path = write("t.tsv", b"query\ttitle\na\tb\nc\n\xff\td\n\n" + b"x" * 2_000_000 + b"\ne\tf\n")
    truncated = "x" * 500
    assert cells_and_rejects(path) == [
        (2, ("a", "b")),
        (3, Reject(3, "wrong column count", "c")),
        (4, Reject(4, "bad UTF-8", "\\xff d")),
        (6, Reject(6, "line too long", truncated)),
        (7, ("e", "f")),
    ]


def test_a_csv_reject_names_the_line_where_its_row_starts(write):
    path = write("t.csv", b'query,title\na,"b\nc"\ncaf\xe9,b\na,b,c\nd,"e"f\ng,h\n')
    assert cells_and_rejects(path) == [
        (2, ("a", "b\nc")),
        (4, Reject(4, "bad UTF-8", "caf\\udce9,b")),
        (5, Reject(5, "wrong column count", "a,b,c")),
        (6, Reject(6, "bad CSV", 'd,"e"f')),
        (7, ("g", "h")),
    ]


def test_a_quote_that_never_closes_rejects_rows_and_reading_continues(write):
    lines = [b"query,title\n", b'a,"b\n', *[b"x" * 1000 + b"\n"] * 200, b"halo,Halo: Reach\n"]
    result = cells_and_rejects(write("t.csv", b"".join(lines)))
    quoted = [row for _, row in result if "unclosed quote" in getattr(row, "reason", "")]
    assert [row.line for row in quoted] == [*range(2, len(quoted) + 2)]
    assert quoted[0].reason == "unclosed quote"
    assert result[-1] == (203, ("halo", "Halo: Reach"))


@pytest.mark.parametrize("bad_row", ['q7,"title 7,3', '"q7,title 7,3'])
def test_rows_after_a_stray_quote_become_rejects(write, bad_row):
    rows = [f"q{n},title {n},3" for n in range(100)]
    rows[7] = bad_row
    result = cells_and_rejects(write("one.csv", "\n".join(["query,title,clicks", *rows]) + "\n"))
    # The quote on line 9 of 101 would contain the 92 lines after it.
    assert [row[1].reason for row in result[7:]] == [
        "unclosed quote",
        *["inside an unclosed quote"] * 92,
    ]
    assert result[7][1].line == 9
    rows[50] = 'q50,title 50",3'
    path = write("two.csv", "\n".join(["query,title,clicks", *rows]) + "\n")
    result = cells_and_rejects(path)
    assert len(result) == 100
    assert [n for n, row in result if isinstance(row, Reject)] == list(range(9, 53))
    with pytest.raises(
        UserError,
        match=r"two\.csv:9: a quote opens here and is not closed: it would contain 43 more lines",
    ):
        read(path, [unchanged("query"), unchanged("title")])
    rows[8] = 'q8,title 8" wide,3'
    result = cells_and_rejects(
        write("three.csv", "\n".join(["query,title,clicks", *rows[:50]]) + "\n")
    )
    assert [n for n, row in result if isinstance(row, Reject)] == [9, 10]


def test_text_in_quotes_may_continue_over_lines_with_commas(write):
    text = "A hat, red.\nWarm\nand, above all, cheap.\n\nYes, really."
    path = write("t.csv", f'query,title,clicks\nhat,"{text}",3\ntie,Tie,1\n')
    assert cells_and_rejects(path) == [(2, ("hat", text)), (7, ("tie", "Tie"))]


def test_a_cell_that_is_too_long_is_a_bad_row(write):
    path = write("t.csv", 'doc_id,title\nd1,"' + "x" * 200_000 + '"\nd2,Hat\n')
    with pytest.raises(UserError, match=r"t.csv:2: not CSV: field larger than field limit"):
        read_cells(path)
    assert [row for _, row in cells_and_rejects(path, ("doc_id", "title"))][1] == ("d2", "Hat")


def test_each_malformed_object_is_a_reject(write):
    lines = [b'{"other": 1}', b"", b"[1]", b"{", b"[" * 5000, b'{"QUERY": 1, "title": null}']
    result = cells_and_rejects(write("t.jsonl", b"\n".join(lines)))
    assert [(n, row.reason if isinstance(row, Reject) else row) for n, row in result] == [
        (1, (None, None)),
        (3, "not a JSON object"),
        (4, "not JSON"),
        (5, "not JSON"),
        (6, ("1", None)),
    ]


@pytest.mark.parametrize("longest", [10, 100])
def test_a_line_that_is_too_long_is_truncated(monkeypatch, longest):
    monkeypatch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", 60)
    data = io.BytesIO(b"one\n\n" + b"x" * 3000 + b"\nnext\n")
    lines = Lines(data, "t", Layout(max_line_bytes=longest))
    blocks = [*lines]
    complete = [block[:2] for block in blocks if not block.too_long]
    assert complete == [(1, b"one\n\n"), (4, b"next\n")]
    assert [len(block.data) for block in blocks if block.too_long] == [longest + 1]
    assert lines.count == 4


@given(st.one_of(st.text(), st.binary()))
def test_the_text_of_a_reject_is_a_short_line_of_utf8(text):
    result = reject(1, BadRow("reason"), text).text
    assert len(result.encode()) <= 20 * 500
    assert not set(result) & {"\t", "\n", "\r"}


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ('{"query": "a", "title": "A", "Title": "B"}', "'title' and 'Title'"),
        ('{"query": "a", "title": "A", " TITLE ": null}', "'title' and ' TITLE '"),
        ('{"query": "a", "title": "A", "title": "B"}', "'title' and 'title'"),
    ],
)
def test_an_object_with_two_keys_for_one_column_is_an_error_that_names_both(write, line, keys):
    path = write("t.jsonl", '{"query": "b", "title": "B"}\n' + line + "\n")
    with pytest.raises(UserError, match=rf"t\.jsonl:2: the keys {keys} are the same column"):
        cells_and_rejects(path)
    assert cells_and_rejects(path, ["query"]) == [(1, ("b",)), (2, ("a",))]
