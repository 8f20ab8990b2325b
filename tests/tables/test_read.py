"""Rules for all files: formats, headers, lines and bad rows."""

from __future__ import annotations

import csv
import io
import time

import pyarrow
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.columns import JUDGMENTS, raw
from dssm_tf.tables.formats import format_of
from dssm_tf.tables.layout import Layout, Reject, parse_columns, reject
from dssm_tf.tables.lines import Lines
from dssm_tf.tables.read import open_table, read
from dssm_tf.tables.times import TimeParser
from tests.script import python

FORMATS = [".tsv", ".csv", ".jsonl", ".parquet", ".tsv.gz", ".csv.gz", ".jsonl.gz"]
ROWS = [("d1", "Red Hat"), ("d2", "Łódź, „quoted“"), ("d3", 'say "hi"')]


def rows(path, columns=("doc_id", "title"), layout=None):
    return read(path, [*map(raw, columns)], layout).select(columns).rows()


def numbered(table, columns, strict=True):
    """Line numbers with cells or a reject, in the order of the file."""
    result = []
    for frame, rejects in table.scan([*map(raw, columns)], strict=strict):
        good = [(line, tuple(cells)) for *cells, line in frame.iter_rows()]
        result += sorted([*good, *((row.line, row) for row in rejects)], key=lambda row: row[0])
    return result


def checked(path, columns=("query", "title"), layout=None):
    with open_table(path, layout=layout) as table:
        return numbered(table, columns, strict=False)


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_rows_and_a_missing_column_is_an_error(write_rows, suffix):
    reordered = [("2024", title, name) for name, title in ROWS]
    path = write_rows(f"t{suffix}", ("year", "Title ", "DOC_ID"), reordered)
    assert rows(path) == ROWS
    assert rows(path, ("title",)) == [(title,) for _, title in ROWS]
    message = r"t\.\S+ has the columns 'year', 'Title', 'DOC_ID'; expected .*missing: query"
    with open_table(path) as table, pytest.raises(UserError, match=message):
        table.check([raw("query"), raw("title")])


def test_a_repeated_column_is_an_error_if_it_is_read(write):
    path = write("t.tsv", "title\tnote\tNote\tTITLE\na\tb\tc\td\n")
    with pytest.raises(UserError, match="names the column 'title' more than once"):
        rows(path, ["title"])
    with open_table(path) as table, pytest.raises(UserError, match="'note' more than once"):
        table.check([raw("note", required=False)])
    with pytest.raises(UserError, match="'title' more than once"):
        rows(write("t.csv", "title,Title\na,b\n"), ["title"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "doc_id\ttitle\r\n\r\nd1\tHalo\r\n  \r\n\t\r\n"),
        ("t.csv", '"doc_id",title\r\n\r\nd1,Halo\r\n\r\n'),
        ("t.jsonl", '\r\n{"doc_id": "d1", "title": "Halo"}\r\n  \r\n'),
    ],
)
def test_windows_line_ends_byte_order_marks_and_blank_lines_are_skipped(write, name, text):
    assert rows(write(name, "\N{BYTE ORDER MARK}" + text)) == [("d1", "Halo")]


def test_quoted_cells_may_contain_commas_quotes_and_line_ends(write):
    path = write("t.csv", 'doc_id,title\r\n7,"a, ""b""\nc"\n8,"d\r\ne"\n9,f\r10,g\n')
    assert rows(path) == [("7", 'a, "b"\nc'), ("8", "d\r\ne"), ("9", "f"), ("10", "g")]


def test_the_layout_sets_encoding_delimiter_and_quotes(write):
    path = write("t.csv", 'doc_id\ttitle\nd1\t"5°" tilt\n'.encode("latin-1"))
    layout = Layout("latin-1", delimiter="\t", strict_quotes=False)
    with open_table(path, layout=layout) as table:
        assert numbered(table, ["title"]) == [(2, ("5° tilt",))]


def test_data_without_a_header_is_read_by_the_names_of_the_layout(write):
    later = io.BytesIO(b"\xef\xbb\xbfd4\tmore\n")
    with open_table("t.tsv", layout=Layout(names=("doc_id", "title")), raw=later) as table:
        assert numbered(table, ["title", "doc_id"]) == [(1, ("more", "d4"))]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.tsv", b"", "t.tsv is empty; expected the columns 'doc_id', 'title'"),
        ("t.csv", b"\n", "is empty; expected the columns 'doc_id', 'title'"),
        ("t.jsonl", b"\n", "is empty; expected the columns 'doc_id', 'title'"),
        ("t.tsv", b"doc_id\ttitle\na\n", "t.tsv:2: 1 columns; the header has 2"),
        ("t.tsv", b"doc_id\ttitle\n\na\tb\tc\n", "t.tsv:3: 3 columns; the header has 2"),
        ("t.csv", b"doc_id,title\na\n", "t.csv:2: 1 columns; the header has 2"),
        (
            "t.tsv",
            b"doc_id\ttitle\na\tb\n\xff\n",
            "t.tsv:3: not UTF-8; say what it is, such as --encoding",
        ),
        ("t.tsv", b"doc_id\ttitle\xe9\n", "t.tsv:1: not UTF-8"),
        (
            "t.csv",
            b"doc_id,title,x\na,b,\xff\n",
            "t.csv:2: not UTF-8; say what it is, such as --encoding cp1252",
        ),
        ("t.csv", b'doc_id,title\na,"open\n', "t.csv:2: not CSV: unexpected end of data"),
        ("t.csv", b'doc_id,title\na,"b" c\n', "t.csv:2: not CSV: ',' expected after '\"'"),
        ("t.jsonl", b'{"doc_id": 1, "title": 2}\n\n[]\n', "jsonl:3: a list; expected a JSON obj"),
        ("t.jsonl", b"\n{\n", "t.jsonl:2: not JSON: "),
        ("t.jsonl", b"[" * 5000, "t.jsonl:1: not JSON: "),
        ("t.parquet", b"PAR1", "t.parquet cannot be read: "),
        (
            "t.tsv",
            b"doc_id\ttitle\n" + b"x" * ((1 << 20) + 1),
            ":2: the line is longer than 1,048,576 bytes",
        ),
        ("t.tsv.gz", b"doc_id\ttitle\n", "t.tsv.gz is not a complete gzip file"),
    ],
)
def test_bad_files_and_rows_are_named_with_their_line(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError) as caught:
        rows(tmp_path / name)
    assert message in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [40, 2000])
@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_half_a_gzip_file_is_an_error(write_rows, tmp_path, suffix, keep):
    path = write_rows(f"t{suffix}.gz", ("doc_id", "title"), [(f"d{n}", n) for n in range(9000)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="is not a complete gzip file"):
        rows(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent.tsv cannot be read: No such file"):
        rows(tmp_path / "absent.tsv")


@pytest.mark.parametrize("name", ["t.xlsx", "t.parquet.gz", "tsv.d/t", "t.gz", "t.txt"])
def test_a_name_of_an_unknown_format_is_an_error_or_means_the_default(name):
    with pytest.raises(UserError, match=r"no known format; expected .*\.tsv, \.csv, \.jsonl, \.pa"):
        format_of(name)
    assert format_of(name, otherwise="tsv") == "tsv"


def test_bad_rows_are_rejects_with_line_and_reason_unless_strict(write):
    path = write("t.tsv", b"query\ttitle\na\tb\nc\n\xff\td\n\n" + b"x" * 2_000_000 + b"\ne\tf\n")
    truncated = "x" * 500
    assert checked(path) == [
        (2, ("a", "b")),
        (3, Reject(3, "wrong column count", "c")),
        (4, Reject(4, "bad UTF-8", "\\xff d")),
        (6, Reject(6, "line too long", truncated)),
        (7, ("e", "f")),
    ]


def test_a_csv_reject_names_the_line_where_its_row_starts(write):
    path = write("t.csv", b'query,title\na,"b\nc"\ncaf\xe9,b\na,b,c\nd,"e"f\ng,h\n')
    assert checked(path) == [
        (2, ("a", "b\nc")),
        (4, Reject(4, "bad UTF-8", "caf\\udce9,b")),
        (5, Reject(5, "wrong column count", "a,b,c")),
        (6, Reject(6, "bad CSV", 'd,"e"f')),
        (7, ("g", "h")),
    ]


def test_a_quote_that_never_closes_rejects_rows_and_reading_continues(write):
    lines = [b"query,title\n", b'a,"b\n', *[b"x" * 1000 + b"\n"] * 200, b"halo,Halo: Reach\n"]
    result = checked(write("t.csv", b"".join(lines)))
    swallowed = [row for _, row in result if "quote left open" in getattr(row, "reason", "")]
    assert [row.line for row in swallowed] == [*range(2, len(swallowed) + 2)]
    assert swallowed[0].reason == "quote left open"
    assert result[-1] == (203, ("halo", "Halo: Reach"))


@pytest.mark.parametrize("bad_row", ['q7,"title 7,3', '"q7,title 7,3'])
def test_rows_after_a_stray_quote_become_rejects(write, bad_row):
    rows = [f"q{n},title {n},3" for n in range(100)]
    rows[7] = bad_row
    result = checked(write("one.csv", "\n".join(["query,title,clicks", *rows]) + "\n"))
    # The quote is on line 9 of 101 and swallows the 92 lines after it.
    assert [row[1].reason for row in result[7:]] == [
        "quote left open",
        *["swallowed by a quote left open"] * 92,
    ]
    assert result[7][1].line == 9
    rows[50] = 'q50,title 50",3'
    path = write("two.csv", "\n".join(["query,title,clicks", *rows]) + "\n")
    result = checked(path)
    assert len(result) == 100
    assert [n for n, row in result if isinstance(row, Reject)] == list(range(9, 53))
    with pytest.raises(
        UserError, match=r"two\.csv:9: a quote opens here that swallows 43 lines, up"
    ):
        read(path, [raw("query"), raw("title")])
    rows[8] = 'q8,title 8" wide,3'
    result = checked(write("three.csv", "\n".join(["query,title,clicks", *rows[:50]]) + "\n"))
    assert [n for n, row in result if isinstance(row, Reject)] == [9, 10]


def test_text_in_quotes_may_continue_over_lines_with_commas(write):
    text = "A hat, red.\nWarm\nand, above all, cheap.\n\nYes, really."
    path = write("t.csv", f'query,title,clicks\nhat,"{text}",3\ntie,Tie,1\n')
    assert checked(path) == [(2, ("hat", text)), (7, ("tie", "Tie"))]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".txt"])
@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1251", "utf-16", "utf-32-le", "gb18030", "shift_jis"]
)
def test_text_of_any_encoding_is_read_if_the_layout_names_it(
    tmp_path, monkeypatch, suffix, encoding
):
    monkeypatch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", 7)
    word = {"latin-1": "Ærø", "cp1251": "шляпа"}.get(encoding, "帽子")
    text = {".txt": f"{word}\n", ".jsonl": f'{{"text": "{word}"}}\n'}.get(suffix, f"text\n{word}\n")
    path = tmp_path / f"t{suffix}"
    path.write_bytes(text.encode(encoding))
    with open_table(path, "txt" if suffix == ".txt" else "", Layout(encoding)) as table:
        assert [row for _, row in numbered(table, ["text"])] == [(word,)]


def test_utf_16_needs_its_encoding_and_half_a_character_is_an_error(write):
    path = write("t.tsv", "doc_id\ttitle\nd1\tHat\n".encode("utf-16"))
    with pytest.raises(UserError, match="not UTF-8; it begins as UTF-16: give --encoding utf-16"):
        rows(path)
    assert rows(path, layout=Layout("utf-16")) == [("d1", "Hat")]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"cannot be decoded: .*; give its --encoding"):
        rows(path, layout=Layout("utf-16"))


def test_dates_after_the_year_9999_are_read_as_text(tmp_path):
    times = pyarrow.array([10**18, 0, None], pyarrow.timestamp("ms", "UTC"))
    days = pyarrow.array([2**31 - 1, 19_753, None], pyarrow.int32()).cast(pyarrow.date32())
    parquet.write_table(pyarrow.table({"at": times, "day": days}), tmp_path / "t.parquet")
    first, *others = rows(tmp_path / "t.parquet", ("at", "day"))
    for cell in first:
        with pytest.raises(UserError, match="is neither ISO 8601"):
            TimeParser()(cell)
    assert others == [("1970-01-01 00:00:00.000Z", "2024-01-31"), (None, None)]


def test_a_cell_that_is_too_long_is_a_bad_row(write):
    path = write("t.csv", 'doc_id,title\nd1,"' + "x" * 200_000 + '"\nd2,Hat\n')
    with pytest.raises(UserError, match=r"t.csv:2: not CSV: field larger than field limit"):
        rows(path)
    assert [row for _, row in checked(path, ("doc_id", "title"))][1] == ("d2", "Hat")


def test_each_malformed_object_is_a_reject(write):
    lines = [b'{"other": 1}', b"", b"[1]", b"{", b"[" * 5000, b'{"QUERY": 1, "title": null}']
    result = checked(write("t.jsonl", b"\n".join(lines)))
    assert [(n, row.reason if isinstance(row, Reject) else row) for n, row in result] == [
        (1, (None, None)),
        (3, "not a JSON object"),
        (4, "not JSON"),
        (5, "not JSON"),
        (6, ("1", None)),
    ]


def test_parquet_is_read_with_every_type_of_text(tmp_path):
    text = pyarrow.array([b"a", None, b"c", b"d", b"e"], pyarrow.binary())
    columns = {
        "Title": text,
        "query": pyarrow.array(["qa", "qb", "qc", "qd", "qe"]).dictionary_encode(),
        "clicks": pyarrow.array([1, 2, -3, None, 1]),
    }
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    expected = [("qa", "a"), ("qb", None), ("qc", "c"), ("qd", "d"), ("qe", "e")]
    assert [row for _, row in checked(path)] == expected


@given(
    st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=20),
    st.integers(1, 7),
    st.booleans(),
)
def test_lines_do_not_depend_on_the_size_of_blocks(lines, size, last_end):
    data = b"\n".join(lines) + (b"\n" if last_end and lines else b"")
    assume((b"\n" in data or b"\r" not in data) and not data.startswith(b"\x1f\x8b"))
    expected = data.split(b"\n")[: -1 if data.endswith(b"\n") else None] if data else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", size)
        layout = Layout(encoding="latin-1", names=("text",))
        with open_table("t", "txt", layout, io.BytesIO(data)) as table:
            result = [(number, text) for number, (text,) in numbered(table, ["text"])]
    texts = [line.removesuffix(b"\r").decode("latin-1") for line in expected]
    assert result == list(enumerate(texts, start=1))
    assert table.lines == len(expected)


@pytest.mark.parametrize("longest", [10, 100])
def test_a_line_that_is_too_long_is_truncated(monkeypatch, longest):
    monkeypatch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", 60)
    data = io.BytesIO(b"one\n\n" + b"x" * 3000 + b"\nnext\n")
    lines = Lines(data, "t", Layout(longest=longest))
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


def test_tables_import_no_heavy_packages():
    code = """
import sys, dssm_tf.tables.click_log, dssm_tf.tables.splits, dssm_tf.tables.trec
print({"tensorflow", "keras", "apache_beam", "pandas", "rich"} & set(sys.modules))
"""
    assert python(code) == "set()\n"


@pytest.mark.parametrize(
    "cell",
    [
        "Cotton shirt\nsizes S, M, L\ncolours red, blue, green",
        "red, small\nblue, medium\ngreen, large",
        "S,M,L\r\nred,blue,green\r\na,b,c",
        'a "quoted" word,\n"another",\n',
        "\n\n",
        "one\rtwo",
    ],
)
@pytest.mark.parametrize("names", [("doc_id", "title"), ("clicks", "query", "title")])
def test_quoted_cells_with_line_ends_are_read_as_pythons_csv_module_reads_them(
    tmp_path, names, cell
):
    table = [names, *([str(n), *["x"] * (len(names) - 2), cell] for n in range(9))]
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        expected = [tuple(row) for row in csv.reader(file)][1:]
    assert rows(tmp_path / "t.csv", names) == expected


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
        checked(path)
    assert checked(path, ["query"]) == [(1, ("b",)), (2, ("a",))]


@pytest.mark.parametrize("head", [b"", b"doc_id\ttitle\n"])
@pytest.mark.parametrize("format", ["txt", "tsv", "csv", "jsonl"])
def test_time_to_read_a_long_line_is_linear_in_its_length(head, format):
    def seconds(size):
        layout = Layout(longest=1 << 31, names=("text",))
        raw = io.BytesIO(head + b"x" * size)
        started = time.process_time()
        with open_table("t", format, layout, raw) as table:
            numbered(table, ["text"], strict=False)
        return time.process_time() - started

    small, large = (min(seconds(size << 20) for _ in range(3)) for size in (4, 64))
    assert large < 80 * small  # 16 times the bytes; 256 times the work if it were quadratic


def test_messages_have_the_names_of_the_columns_in_the_file(write):
    path = write("t.csv", "Query,DocID,rating\nred shoe,a,3\n")
    layout = Layout(columns=parse_columns("doc_id=docid,grade=rating"))
    with pytest.raises(UserError) as caught:
        read(path, JUDGMENTS, layout)
    assert str(caught.value) == (
        f"{path} has the columns 'Query', 'DocID', 'rating'; expected 'query_id', 'query', "
        "'docid', 'title', 'rating' (missing: query_id, title)."
    )
    good = write("g.csv", "query_id,query,docid,title,rating\n1,q,a,t,high\n")
    with pytest.raises(UserError, match=r"g\.csv:2: rating 'high' is not a number"):
        read(good, JUDGMENTS, layout)
