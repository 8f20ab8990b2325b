"""Rules for all files: formats, headers, encodings and lines."""

from __future__ import annotations

import csv
import io
import time
from dataclasses import replace

import pyarrow
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import read_logs
from dssm_tf.tables.columns import JUDGMENTS, unchanged
from dssm_tf.tables.formats import format_of
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.read import open_table, read, scan_texts
from dssm_tf.tables.times import TimeParser
from tests.script import python
from tests.tables.rows import cells_and_rejects, numbered_cells, read_cells

FORMATS = [".tsv", ".csv", ".jsonl", ".parquet", ".tsv.gz", ".csv.gz", ".jsonl.gz"]
ROWS = [("d1", "Red Hat"), ("d2", "Łódź, „quoted“"), ("d3", 'say "hi"')]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_rows_and_a_missing_column_is_an_error(write_rows, suffix):
    reordered = [("2024", title, doc_id) for doc_id, title in ROWS]
    path = write_rows(f"t{suffix}", ("year", "Title ", "DOC_ID"), reordered)
    assert read_cells(path) == ROWS
    assert read_cells(path, ("title",)) == [(title,) for _, title in ROWS]
    message = r"t\.\S+ has the columns 'year', 'Title', 'DOC_ID'; expected .*missing: query"
    with open_table(path) as table, pytest.raises(UserError, match=message):
        table.check([unchanged("query"), unchanged("title")])


def test_a_repeated_column_is_an_error_if_it_is_read(write):
    path = write("t.tsv", "title\tnote\tNote\tTITLE\na\tb\tc\td\n")
    with pytest.raises(UserError, match="names the column 'title' more than once"):
        read_cells(path, ["title"])
    with open_table(path) as table, pytest.raises(UserError, match="'note' more than once"):
        table.check([unchanged("note", required=False)])
    with pytest.raises(UserError, match="'title' more than once"):
        read_cells(write("t.csv", "title,Title\na,b\n"), ["title"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "doc_id\ttitle\r\n\r\nd1\tHalo\r\n  \r\n\t\r\n"),
        ("t.csv", '"doc_id",title\r\n\r\nd1,Halo\r\n\r\n'),
        ("t.jsonl", '\r\n{"doc_id": "d1", "title": "Halo"}\r\n  \r\n'),
    ],
)
def test_windows_line_ends_byte_order_marks_and_blank_lines_are_skipped(write, name, text):
    assert read_cells(write(name, "\N{BYTE ORDER MARK}" + text)) == [("d1", "Halo")]


def test_quoted_cells_may_contain_commas_quotes_and_line_ends(write):
    path = write("t.csv", 'doc_id,title\r\n7,"a, ""b""\nc"\n8,"d\r\ne"\n9,f\r10,g\n')
    assert read_cells(path) == [("7", 'a, "b"\nc'), ("8", "d\r\ne"), ("9", "f"), ("10", "g")]


def test_the_layout_sets_encoding_delimiter_and_quotes(write):
    path = write("t.csv", 'doc_id\ttitle\nd1\t"5°" tilt\n'.encode("latin-1"))
    layout = Layout("latin-1", delimiter="\t", strict_quotes=False)
    with open_table(path, layout=layout) as table:
        assert numbered_cells(table, ["title"]) == [(2, ("5° tilt",))]


def test_data_without_a_header_is_read_by_the_names_of_the_layout(write):
    file = io.BytesIO(b"\xef\xbb\xbfd4\tmore\n")
    with open_table("t.tsv", layout=Layout(names=("doc_id", "title")), file=file) as table:
        assert numbered_cells(table, ["title", "doc_id"]) == [(1, ("more", "d4"))]


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
            "t.tsv:3: the text is not UTF-8; give its encoding, such as --encoding",
        ),
        ("t.tsv", b"doc_id\ttitle\xe9\n", "t.tsv:1: the text is not UTF-8"),
        (
            "t.csv",
            b"doc_id,title,x\na,b,\xff\n",
            "t.csv:2: the text is not UTF-8; give its encoding, such as --encoding cp1252",
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
        read_cells(tmp_path / name)
    assert message in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [40, 2000])
@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_half_a_gzip_file_is_an_error(write_rows, tmp_path, suffix, keep):
    path = write_rows(f"t{suffix}.gz", ("doc_id", "title"), [(f"d{n}", n) for n in range(9000)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="is not a complete gzip file"):
        read_cells(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent.tsv cannot be read: No such file"):
        read_cells(tmp_path / "absent.tsv")


@pytest.mark.parametrize("name", ["t.xlsx", "t.parquet.gz", "tsv.d/t", "t.gz", "t.txt"])
def test_a_name_of_an_unknown_format_is_an_error_or_means_the_default(name):
    with pytest.raises(
        UserError, match=r"an unknown format; expected .*\.tsv, \.csv, \.jsonl, \.pa"
    ):
        format_of(name)
    assert format_of(name, otherwise="tsv") == "tsv"


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
        assert [row for _, row in numbered_cells(table, ["text"])] == [(word,)]


def test_utf_16_needs_its_encoding_and_half_a_character_is_an_error(write):
    path = write("t.tsv", "doc_id\ttitle\nd1\tHat\n".encode("utf-16"))
    with pytest.raises(UserError, match="the text is UTF-16, not UTF-8; give --encoding utf-16"):
        read_cells(path)
    assert read_cells(path, layout=Layout("utf-16")) == [("d1", "Hat")]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"cannot be decoded: .*; give its --encoding"):
        read_cells(path, layout=Layout("utf-16"))


def test_dates_after_the_year_9999_are_read_as_text(tmp_path):
    times = pyarrow.array([10**18, 0, None], pyarrow.timestamp("ms", "UTC"))
    days = pyarrow.array([2**31 - 1, 19_753, None], pyarrow.int32()).cast(pyarrow.date32())
    parquet.write_table(pyarrow.table({"at": times, "day": days}), tmp_path / "t.parquet")
    first, *others = read_cells(tmp_path / "t.parquet", ("at", "day"))
    for cell in first:
        with pytest.raises(UserError, match="is neither ISO 8601"):
            TimeParser()(cell)
    assert others == [("1970-01-01 00:00:00.000Z", "2024-01-31"), (None, None)]


def test_parquet_is_read_with_every_type_of_text(tmp_path):
    text = pyarrow.array([b"a", None, b"c", b"d", b"e"], pyarrow.binary())
    columns = {
        "Title": text,
        "query": pyarrow.array(["qa", "qb", "qc", "qd", "qe"]).dictionary_encode(),
    }
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    expected = [("qa", "a"), ("qb", None), ("qc", "c"), ("qd", "d"), ("qe", "e")]
    assert [row for _, row in cells_and_rejects(path)] == expected


@given(
    st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line), max_size=20),
    st.integers(1, 7),
    st.booleans(),
)
def test_lines_do_not_depend_on_the_size_of_blocks(lines, size, last_end):
    data = b"\n".join(lines) + (b"\n" if last_end and lines else b"")
    # A file with \r and no \n has old Macintosh line ends; one with the magic number is gzip.
    assume((b"\n" in data or b"\r" not in data) and not data.startswith(b"\x1f\x8b"))
    # After a final line end, there is no further line.
    expected = data.split(b"\n")[: -1 if data.endswith(b"\n") else None] if data else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", size)
        layout = Layout(encoding="latin-1", names=("text",))
        with open_table("t", "txt", layout, io.BytesIO(data)) as table:
            result = [(number, text) for number, (text,) in numbered_cells(table, ["text"])]
    texts = [line.removesuffix(b"\r").decode("latin-1") for line in expected]
    assert result == list(enumerate(texts, start=1))
    assert table.lines == len(expected)


def test_tables_import_no_heavy_packages():
    code = """
import sys, dssm_tf.tables.click_log, dssm_tf.tables.splits, dssm_tf.tables.trec
print({"tensorflow", "keras", "apache_beam", "pandas", "rich"} & set(sys.modules))
"""
    assert python(code) == "set()\n"


@pytest.mark.parametrize(
    "cell",
    [
        "Cotton shirt\nsizes S, M, L\ncolors red, blue, green",
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
    assert read_cells(tmp_path / "t.csv", names) == expected


@pytest.mark.parametrize("head", [b"", b"doc_id\ttitle\n"])
@pytest.mark.parametrize("format", ["txt", "tsv", "csv", "jsonl"])
def test_time_to_read_a_long_line_is_linear_in_its_length(head, format):
    def seconds(size):
        layout = Layout(max_line_bytes=1 << 31, names=("text",))
        file = io.BytesIO(head + b"x" * size)
        started = time.process_time()
        with open_table("t", format, layout, file) as table:
            numbered_cells(table, ["text"], strict=False)
        return time.process_time() - started

    small, large = (min(seconds(size << 19) for _ in range(3)) for size in (2, 32))
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


def test_a_column_that_is_read_under_another_name_is_named_if_it_is_missing(write):
    path = write("t.csv", "query,docid,rating,name\nred shoe,a,3,Red Shoe\n")
    columns = "query_id=query,doc_id=docid,grade=rating,title=name"
    with pytest.raises(UserError) as caught:
        read(path, JUDGMENTS, Layout(columns=parse_columns(columns)))
    assert str(caught.value).endswith(
        "(missing: query). The column 'query' is read as 'query_id', as --columns says; copy the "
        "column in the file to use it for both."
    )


def test_columns_that_names_an_optional_column_the_log_lacks_is_an_error(write, write_rows):
    layout = Layout(columns=parse_columns("query=term,title=product,clicks=num_click,doc_id=sku"))
    for suffix in (".tsv", ".csv", ".parquet"):
        header = ("term", "product", "num_clicks", "clicks")
        path = write_rows(f"log{suffix}", header, [("q", "t", "900", "1")])
        with pytest.raises(UserError) as caught:
            read_logs([path], layout)
        assert str(caught.value) == (
            f"{path} has the columns 'term', 'product', 'num_clicks', 'clicks'; expected 'term', "
            "'product', 'num_click', 'sku' (missing: num_click, sku). Correct the names in "
            "--columns, or leave out the columns that the file lacks."
        )
    titles = write("titles.tsv", "product\tbrand\nt\tb\n")
    with pytest.raises(UserError, match="missing: sku"):
        [*scan_texts(titles, "title", layout)]
    # The first object of JSON need not have all keys.
    objects = '{"term": "q", "product": "t"}\n{"term": "q", "product": "t", "num_click": 3}\n'
    rows, _ = read_logs([write("log.jsonl", objects)], layout)
    assert rows["clicks"].to_list() == [1, 3]


def test_tables_that_share_columns_need_only_those_that_are_read_from_each(write):
    columns = "query=term,title=product,doc_id=sku,grade=stars,session_id=sess,clicks=n"
    layout = Layout(columns=parse_columns(columns))
    log = write("log.tsv", "term\tproduct\tsess\tn\nq\tt\ts\t9\n")
    judgments = write("judgments.tsv", "query_id\tterm\tsku\tproduct\tstars\n1\tq\td\tt\t3\n")
    corpus = write("corpus.tsv", "sku\tproduct\nd\tt\n")
    for shared in (layout.of_log(corpus), layout.of_log(None, judgments)):
        rows, _ = read_logs([log], shared)
        assert rows.select("clicks", "session", "doc_id").row(0) == (9, "s", "")
    assert [judgment.grade for judgment in read_judgments(judgments, layout)] == [3]
    assert read_corpus(corpus, layout.corpus) == [("d", "t")]
    assert [frame["id"].to_list() for frame in scan_texts(corpus, "title", layout)] == [["d"]]
    assert [frame["text"].to_list() for frame in scan_texts(log, "query", layout)] == [["q"]]
    # A corpus with names of its own does not share those of the log.
    of_log = replace(layout, corpus_columns=(("doc_id", "id"),)).of_log(corpus)
    with pytest.raises(UserError, match="missing: sku"):
        read_logs([log], of_log)
