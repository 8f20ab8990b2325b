"""Good and rejected rows of click logs."""

from __future__ import annotations

import io
import json
from codecs import BOM_UTF8

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow, clean_text, count, without_separator
from dssm_tf.tables.click_log import LogRow, log_frame, read_logs, write_log
from dssm_tf.tables.columns import NULL_MARKERS
from dssm_tf.tables.graded_lists import read_lists
from dssm_tf.tables.layout import Layout, Reject, parse_columns
from dssm_tf.tables.read import open_table
from dssm_tf.text.rules import FOLDED
from tests.tables.rows import read_log_rows, table_rows


def read(path):
    """The good rows, then the rejects."""
    with open_table(path) as table:
        return sorted(table_rows(table), key=lambda row: isinstance(row, Reject))


@pytest.mark.parametrize(
    "suffix", [".tsv", ".csv", ".jsonl", ".parquet", ".tsv.gz", ".csv.gz", ".jsonl.gz"]
)
def test_declared_column_names_give_the_same_rows_in_every_format(write_rows, suffix):
    columns = ("Search_Term", "product_title", "clicks", "timestamp", "title")
    rows = [("hat", "Red, Hat", 2, "30", "other"), ("tie", "Tie", 1, "4", "x")]
    path = write_rows(f"log{suffix}", columns, rows)
    layout = Layout(columns=parse_columns("query=search_term, title=Product_Title"))
    expected = [LogRow(query, title, n, timestamp=time) for query, title, n, time, _ in rows]
    assert read_log_rows(path, path, layout=layout) == expected * 2
    # JSON lines have no header, so the missing key is reported at a line.
    message = r"expected 'search', 'title' \(missing: search|2 no search"
    with pytest.raises(UserError, match=message):
        read_logs([path], Layout(columns=parse_columns("query=search")))


def test_columns_are_matched_by_name(write):
    header = "doc_id\tTITLE\tsession_id\tclicks\tquery\timpressions"
    path = write("log.tsv", f"{header}\nd1\tHalo: Reach\t s9\t3\thalo\t20\n")
    assert read(path) == [
        LogRow("halo", "Halo: Reach", clicks=3, impressions=20, session="s9", doc_id="d1")
    ]


def test_a_row_without_a_count_of_clicks_has_1_click(write):
    for name, text in (
        ("a.tsv", "query\ttitle\nhalo\tReach\n"),
        ("b.tsv", "query\ttitle\tclicks\nhalo\tReach\t\n"),
        ("c.jsonl", '{"query": "halo", "title": "Reach", "clicks": null}'),
    ):
        assert read(write(name, text)) == [LogRow("halo", "Reach", 1)]


def test_malformed_rows_are_rejected_with_their_lines_and_reasons(write):
    reasons = {
        "a\tb": ("wrong column count", None),
        "a\tb\t1\t2\t3": ("wrong column count", 2),
        "  \tb\t1\t2": ("empty query", 1),
        "a\t\t1\t2": ("empty title", 1),
        "a\tb\tmany\t2": ("clicks is not a number", None),
        "a\tb\t1\t-1": ("impressions is negative", 1),
    }
    good = "halo\tReach\t1\t2"
    path = write("log.tsv", "\n".join(["query\ttitle\tclicks\timpressions", good, *reasons, good]))
    before, after, *rejects = read(path)
    assert rejects == [
        Reject(number, reason, line.replace("\t", " "), clicks)
        for number, (line, (reason, clicks)) in enumerate(reasons.items(), start=3)
    ]
    assert before == after == LogRow("halo", "Reach", 1, 2)


def test_json_objects_are_read_by_key_and_malformed_ones_are_rejected(write):
    objects = [
        {"title": "Halo", "query": "halo", "clicks": 2, "session_id": 7, "timestamp": 1.5},
        {"query": "halo"},
        {"query": "halo", "title": ""},
        {"query": 5, "title": "x"},
        {"query": "a", "title": "b", "clicks": True},
        {"query": "a", "title": "b", "clicks": float("nan")},
        {"query": "\ud800", "title": "b"},
    ]
    rows = read(write("log.jsonl", "".join(json.dumps(value) + "\n" for value in objects)))
    assert rows[0] == LogRow("halo", "Halo", 2, session="7", timestamp="1.5")
    assert [row.reason for row in rows[1:]] == [
        "no title", "empty title", "query is not text", "clicks is not a number",
        "clicks is not finite", "bad UTF-8",
    ]  # fmt: skip


@pytest.mark.parametrize("nested", ['{"a": 1}', '{"a": 1, "a": 2}'])
def test_a_nested_object_with_a_repeated_key_is_no_text(write, nested):
    good = f'{{"query": "q", "title": "t", "session_id": {nested}}}\n'
    bad = [
        f'{{"query": "q", "title": {nested}, "clicks": 2}}\n',
        f'{{"query": {nested}, "title": "t", "clicks": 2}}\n',
        f'{{"query": "q", "title": "t", "clicks": {nested}}}\n',
    ]
    row, *rejects = read(write("log.jsonl", "".join([good, *bad])))
    assert isinstance(row, LogRow)
    reasons = ["title is not text", "query is not text", "clicks is not a number"]
    assert [reject.reason for reject in rejects] == reasons
    path = write("judgments.jsonl", f'{{"query": "q", "title": "t", "grade": {nested}}}\n')
    with pytest.raises(UserError, match=r"'grade' is \{'a': \d\}; expected a number"):
        read_lists(path, "grade", (0, 4), FOLDED)


def test_a_written_log_reads_back(tmp_path):
    rows = [LogRow("hat", "Red Hat", 2, 5, "a\tb", "2024", 2, "d1"), LogRow("t\nie", "The  Tie")]
    for name in ("log.tsv", "log.tsv.gz"):
        write_log(tmp_path / name, log_frame(rows))
        assert read_log_rows(tmp_path / name) == [
            LogRow("hat", "Red Hat", 2, 5, "a b", "2024", 2, "d1"),
            LogRow("t ie", "The  Tie"),
        ]


@pytest.mark.parametrize("name", ["log.tsv", "log.csv", "log.jsonl"])
def test_lines_that_are_not_utf8_are_rejected_in_a_block_without_a_good_row(write, name):
    header = {"log.tsv": b"query\ttitle\n", "log.csv": b"query,title\n"}.get(name, b"")
    rows = read(write(name, header + b"caf\xe9\n\xff\n"))
    assert [row.reason for row in rows] == ["bad UTF-8"] * 2


CELLS = st.one_of(
    st.text(max_size=6).filter(lambda text: not {*text} & {*"\t\r\n"}),
    st.sampled_from(
        ["hat", " Hat ", "0", "3", "12", "1,234", "-1", "2.0", "", "␟", "\x1c", "\u2003"]
    ),
)
UNUSUAL = st.sampled_from(
    [
        b"",
        b" ",
        b"\xff\t",
        b"a\tb",
        BOM_UTF8 + b"a\tb\t\t\t",
        b"a\tb\t\t\t\rc\td\t\t\t",
        b"a\t\tb\t\t\t",
    ]
)
LINES = st.lists(
    st.one_of(st.tuples(*[CELLS] * 5).map("\t".join).map(str.encode), UNUSUAL), max_size=12
)
NAMES = ("query", "title", "clicks", "session_id", "position")


@given(LINES)
@example([b"\t\t\t\t", b"0\t0\t\t\t1"])
def test_lines_read_as_columns_equal_lines_read_cell_by_cell(lines):
    """pyarrow reads blocks of regular lines as columns; here, each line is parsed on its own."""

    def read_in_blocks(size):
        file, patch = io.BytesIO(b"".join(line + b"\n" for line in lines)), pytest.MonkeyPatch()
        patch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", size)
        with patch.context(), open_table("log.tsv", layout=Layout(names=NAMES), file=file) as table:
            yield from table_rows(table)

    def strip(line):
        return line.decode("utf-8", "surrogateescape").strip()

    def position(cell):
        try:
            return count(cell, "position")
        except BadRow:
            return 0

    def parse_line(number, line):
        line = line.removeprefix(BOM_UTF8) if number == 1 else line
        try:
            query, title, clicks, session, position_cell = line.decode().split("\t")
            return LogRow(
                without_separator(clean_text(query, "query"), "query"),
                clean_text(title, "title"),
                count(clicks, "clicks", 1),
                0,
                "" if session.strip().lower() in NULL_MARKERS else session.strip(),
                "",
                position(position_cell),
            )
        except (BadRow, ValueError):
            return number

    expected = [parse_line(n, line) for n, line in enumerate(lines, start=1) if strip(line)]
    for size in (60, 1 << 18):  # several blocks, one block
        rows = [row.line if isinstance(row, Reject) else row for row in read_in_blocks(size)]
        assert sorted(rows, key=str) == sorted(expected, key=str)
