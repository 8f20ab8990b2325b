"""Parquet files with every type of text that Arrow and Polars write, and with bad rows."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.tables import parquet_cells
from dssm_tf.tables.click_log import read_logs, scan_log
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.judgments import CorpusTitle, read_corpus
from dssm_tf.tables.layout import MAX_LINE_BYTES
from dssm_tf.tables.read import open_table
from tests.tables.rows import read_log_rows

TITLES = ["Red Hat", None, "Łódź", "tie"]


def column(kind):
    text = pa.array(TITLES)
    if kind.startswith("dictionary"):
        values = pa.string() if kind.endswith("string") else pa.binary()
        return text.cast(values).dictionary_encode()
    if kind == "fixed_size_binary":
        return pa.array([title and title.encode().ljust(8) for title in TITLES], pa.binary(8))
    return text.cast(getattr(pa, kind)())


@pytest.mark.parametrize(
    "kind",
    ["string", "large_string", "string_view", "binary", "large_binary", "binary_view",
     "dictionary of string", "dictionary of binary", "fixed_size_binary"],
)  # fmt: skip
def test_every_type_that_arrow_writes_for_text_is_read(tmp_path, kind):
    queries = pa.array([f"q{n}" for n in range(4)])
    parquet.write_table(pa.table({"query": queries, "title": column(kind)}), tmp_path / "t.parquet")
    rows, tally = read_logs([tmp_path / "t.parquet"], max_rejected=1)
    assert rows["title"].to_list() == ["Red Hat", "Łódź", "tie"]
    assert rows["#"].to_list() == [1, 3, 4]
    assert tally.reasons == {"no title": 1}


@pytest.mark.parametrize("type", [pl.String, pl.Categorical, pl.Enum(["a", "b"])])
def test_every_type_that_polars_writes_for_text_is_read(tmp_path, type):
    frame = pl.DataFrame({"query": pl.Series(["a", "b"], dtype=type), "title": ["A", "B"]})
    frame.write_parquet(tmp_path / "t.parquet")
    assert [row.query for row in read_log_rows(tmp_path / "t.parquet")] == ["a", "b"]


@pytest.mark.parametrize("type", [pa.string(), pa.binary(), pa.large_binary(), pa.binary_view()])
def test_a_cell_that_is_not_utf8_rejects_only_its_row(tmp_path, type):
    cells = pa.array([b"caf\xe9", *[b"pad %d" % n for n in range(19)]], pa.binary())
    if type == pa.string():
        cells = pa.Array.from_buffers(type, len(cells), cells.buffers())
    else:
        cells = cells.cast(type)
    table = pa.table({"query": cells, "title": ["T"] * 20, "clicks": pa.array(range(1, 21))})
    parquet.write_table(table, tmp_path / "t.parquet")
    rows, tally = read_logs([tmp_path / "t.parquet"])
    assert len(rows) == 19
    assert [(row.line, row.reason, row.clicks) for _, row in tally.largest] == [(1, "bad UTF-8", 1)]


def test_ids_of_numbers_and_clicks_of_any_number_type_are_read(tmp_path):
    corpus = {"doc_id": pa.array([7, 8], pa.int16()), "title": ["A", "B"]}
    parquet.write_table(pa.table(corpus), tmp_path / "c.parquet")
    assert read_corpus(tmp_path / "c.parquet") == [CorpusTitle("7", "A"), CorpusTitle("8", "B")]
    decimals = pa.array(["1000.000", "2.000"]).cast(pa.decimal128(10, 3))
    for clicks in ([1000.0, 2.0], pa.array([1000, 2], pa.uint16()), decimals):
        log = pa.table({"query": ["a", "b"], "title": ["A", "B"], "clicks": clicks})
        parquet.write_table(log, tmp_path / "l.parquet")
        assert [row.clicks for row in read_log_rows(tmp_path / "l.parquet")] == [1000, 2]


ENCODINGS = ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "RLE_DICTIONARY"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_texts_of_every_encoding_are_read(tmp_path, encoding):
    queries = [f"{n % 20} red" for n in range(200)]
    table = pa.table({"query": queries, "title": [None, *map(str, range(199))]})
    with_dictionary = encoding == "RLE_DICTIONARY"
    encodings = None if with_dictionary else dict.fromkeys(table.column_names, encoding)
    parquet.write_table(
        table, tmp_path / "t.parquet", row_group_size=70, use_dictionary=with_dictionary,
        column_encoding=encodings,
    )  # fmt: skip
    rows, tally = read_logs([tmp_path / "t.parquet"])
    assert rows["query"].to_list() == queries[1:]
    assert rows["title"].to_list() == [str(n) for n in range(199)]
    assert tally.reasons == {"no title": 1}


@pytest.mark.parametrize("kind", ["string", "binary", "dictionary of string", "differences"])
def test_a_text_that_a_small_file_repeats_many_times_is_read_in_small_batches(tmp_path, kind):
    texts = pa.array(["red hat " * 10_000] * 2_000)  # 160 MB
    if kind == "binary":
        texts = texts.cast(pa.binary())
    table = pa.table({"query": [str(n) for n in range(2_000)], "title": texts.dictionary_encode()})
    if kind != "dictionary of string":  # the file does not say that the column is a dictionary
        table = table.replace_schema_metadata().cast(
            pa.schema([("query", pa.string()), ("title", texts.type)])
        )
    options = {}
    if kind == "differences":
        options = {"use_dictionary": False, "column_encoding": {"title": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(table, tmp_path / "t.parquet", **options)
    assert (tmp_path / "t.parquet").stat().st_size < 500_000
    queries: list[str] = []
    del texts, table
    before = pa.total_allocated_bytes()
    with open_table(tmp_path / "t.parquet") as opened:
        for rows, _ in scan_log(opened):
            assert rows["title"].str.len_bytes().sum() <= 1 << 24
            assert pa.total_allocated_bytes() - before < 100 << 20
            queries += rows["query"].to_list()
    assert queries == [str(n) for n in range(2_000)]


@pytest.mark.parametrize("kind", ["differences", "list"])
def test_texts_that_cannot_be_read_as_indices_are_read_a_few_rows_at_a_time(tmp_path, kind):
    text, count = "red hat " * 10_000, 4_000
    options = {}
    if kind == "list":
        values = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))
        titles = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), values)
    else:
        titles = pa.array([text] * count)
        options = {"use_dictionary": False, "column_encoding": {"title": "DELTA_BYTE_ARRAY"}}
    parquet.write_table(
        pa.table({"title": titles}), tmp_path / "t.parquet", store_schema=False, **options
    )
    del titles
    before = pa.total_allocated_bytes()
    with open_table(tmp_path / "t.parquet") as opened:
        next(opened.scan([unchanged("title")]))
        assert pa.total_allocated_bytes() - before < 64 << 20  # all rows are 320 MB


def test_a_row_with_a_cell_longer_than_a_line_may_be_is_rejected(tmp_path):
    titles = ["Red Hat", "x" * MAX_LINE_BYTES, "x" * (MAX_LINE_BYTES + 1), "Cap"]
    table = pa.table({"query": [*"abcd"], "title": titles, "clicks": [1, 2, 3, 4]})
    parquet.write_table(table, tmp_path / "t.parquet")
    rows, tally = read_logs([tmp_path / "t.parquet"], max_rejected=1)
    assert rows["query"].to_list() == ["a", "b", "d"]
    assert tally.reasons == {"line too long": 1}
    assert tally.rejected_clicks == 3


LONG = 10_000  # bytes of a text
COUNT = 500  # values of a list: 5 MB of texts


def list_of(values):
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def repeated(text):
    return pa.DictionaryArray.from_arrays(pa.array([0] * COUNT, pa.int32()), pa.array([text]))


def enormous_lists(kind):
    texts = repeated("x" * LONG)
    if kind == "texts":
        return list_of(texts)
    if kind == "texts of several rows":
        return pa.ListArray.from_arrays(
            pa.array([0, *range(100, COUNT + 1, 10)], pa.int32()), texts
        )
    if kind == "lists":
        return list_of(pa.ListArray.from_arrays(pa.array(range(COUNT + 1), pa.int32()), texts))
    if kind == "maps":
        keys = pa.array(map(str, range(COUNT)))
        return pa.MapArray.from_arrays(pa.array([0, COUNT], pa.int32()), keys, texts)
    if kind == "objects":
        return list_of(pa.StructArray.from_arrays([pa.array(range(COUNT)), texts], ["n", "text"]))
    if kind == "texts of equal length":
        return list_of(pa.array([b"x" * LONG] * COUNT, pa.binary(LONG)))
    if kind == "differences":
        return list_of(pa.array(["x" * LONG] * COUNT))
    return list_of(pa.array([0] * 100_000))


@pytest.mark.parametrize(
    "kind",
    ["texts", "texts of several rows", "lists", "maps", "objects", "texts of equal length",
     "differences", "numbers"],
)  # fmt: skip
def test_lists_that_a_small_file_makes_enormous_are_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(parquet_cells, "MAX_LIST_BYTES", 1 << 20)
    titles = enormous_lists(kind)
    options = {}
    if kind == "differences":
        encoding = {"title.list.element": "DELTA_BYTE_ARRAY"}
        options = {"use_dictionary": False, "column_encoding": encoding}
    parquet.write_table(
        pa.table({"title": titles}), tmp_path / "t.parquet", store_schema=False, **options
    )
    assert (tmp_path / "t.parquet").stat().st_size < 20_000
    message = "row group 1 may have lists of up to [0-9,]+ values in the column 'title', which"
    with open_table(tmp_path / "t.parquet") as opened, pytest.raises(UserError, match=message):
        next(opened.scan([unchanged("title")]))


def test_enormous_lists_of_a_column_that_is_not_read_are_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_cells, "MAX_LIST_BYTES", 1 << 20)
    table = pa.table({"title": ["red fox"], "title.raw": enormous_lists("texts")})
    parquet.write_table(table, tmp_path / "t.parquet", store_schema=False)
    with open_table(tmp_path / "t.parquet") as opened:
        cells = [cell for rows, _ in opened.scan([unchanged("title")]) for cell in rows["title"]]
    assert cells == ["red fox"]


def test_short_lists_with_long_texts_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_cells, "MAX_LIST_BYTES", 1 << 16)
    texts = ["x" * 500, "red hat", "cap"]  # one list of all values would have 100,000 bytes
    titles = [None if row % 7 == 0 else texts[: row % 4] for row in range(400)]
    parquet.write_table(pa.table({"title": titles}), tmp_path / "t.parquet")
    with open_table(tmp_path / "t.parquet") as opened:
        cells = [cell for rows, _ in opened.scan([unchanged("title")]) for cell in rows["title"]]
    assert cells == [None if title is None else json.dumps(title) for title in titles]


@pytest.mark.parametrize("value", ["x" * 1_000, 7, {"n": 1}])
def test_a_row_with_a_list_longer_than_a_line_may_be_is_rejected(tmp_path, value):
    count = MAX_LINE_BYTES // (1_000 if isinstance(value, str) else 2)
    table = {"query": ["a", "b"], "title": ["A", "B"], "session_id": [[value], [value] * count]}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    rows, tally = read_logs([tmp_path / "t.parquet"], max_rejected=1)
    assert rows["session"].to_list() == [json.dumps([value])]
    assert tally.reasons == {"line too long": 1}


def test_texts_that_are_longer_than_a_line_in_the_mean_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_cells, "MAX_LIST_BYTES", 1 << 20)
    titles = ["x" * (2 * MAX_LINE_BYTES), "cap"]
    parquet.write_table(pa.table({"query": ["a", "b"], "title": titles}), tmp_path / "t.parquet")
    message = r"row group 1 \(rows: 2\) has 2,\d{3},\d{3} bytes in the column 'title'; expected at"
    with pytest.raises(UserError, match=message):
        read_logs([tmp_path / "t.parquet"], max_rejected=1)


def test_reading_does_not_import_pandas(tmp_path):
    table = pa.table({"query": ["a"], "title": ["A"], "clicks": [3]})
    parquet.write_table(table, tmp_path / "t.parquet")
    code = (
        "import sys; from dssm_tf.tables.click_log import read_logs; read_logs([sys.argv[1]]); "
        "sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "t.parquet"], check=True)
