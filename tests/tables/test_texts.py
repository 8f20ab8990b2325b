import gzip
import io
import sys

import pyarrow
import pytest
from pyarrow import parquet

from dssm_tf.common.errors import UserError
from dssm_tf.tables.texts import open_texts

ROWS = [("d1", "Red Hat"), ("d2", "Łódź, „quoted“"), ("d3", "")]


def read(path, **options):
    with open_texts(path, **options) as found:
        return [(text.id, text.text) for text in found.rows]


def written(folder, suffix):
    path = folder / f"texts{suffix}"
    if suffix == ".parquet":
        columns = dict(zip(("doc_id", "title"), map(list, zip(*ROWS, strict=True)), strict=True))
        parquet.write_table(pyarrow.table(columns), path)
        return path
    lines = {
        ".tsv": ["doc_id\ttitle", *("\t".join(row) for row in ROWS)],
        ".csv": ["doc_id,title", *(f'{name},"{title}"' for name, title in ROWS)],
        ".jsonl": [f'{{"doc_id": "{name}", "title": "{title}"}}' for name, title in ROWS],
    }[suffix.removesuffix(".gz")]
    data = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    "suffix", [".tsv", ".csv", ".jsonl", ".parquet", ".tsv.gz", ".csv.gz", ".jsonl.gz"]
)
def test_every_format_gives_the_same_texts_and_ids(tmp_path, suffix):
    assert read(written(tmp_path, suffix)) == ROWS


def test_row_i_of_a_text_file_is_line_i(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfone\r\n\n  two \n\n")
    texts = [(None, "one"), (None, ""), (None, "  two "), (None, "")]
    assert read(tmp_path / "t.txt") == texts
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    assert read(tmp_path / "t.txt.gz") == [(None, "one"), (None, "two")]


def test_standard_input_is_read_as_lines(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("a\nż\n".encode())))
    assert read("-") == [(None, "a"), (None, "ż")]


def test_blank_lines_of_a_table_are_left_out_as_in_a_corpus(tmp_path):
    (tmp_path / "t.tsv").write_text("title\tdoc_id\n\na\t1\n \nb\t2\n")
    assert read(tmp_path / "t.tsv") == [("1", "a"), ("2", "b")]


def test_quoted_csv_cells_hold_commas_and_line_ends(tmp_path):
    (tmp_path / "t.csv").write_text('id,text\n7,"a, ""b""\nc"\n')
    assert read(tmp_path / "t.csv") == [("7", 'a, "b"\nc')]


def test_the_side_chooses_the_columns_and_options_override_it(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("query_id\tquery\tdoc_id\ttitle\nq\twho\td\tHim\n")
    assert read(path) == [("d", "Him")]
    assert read(path, side="query") == [("q", "who")]
    assert read(path, column="query", id_column="doc_id") == [("d", "who")]


def test_without_an_id_column_there_are_no_ids(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n\n{"text": "half \\ud800"}\n')
    with open_texts(tmp_path / "t.jsonl") as found:
        assert not found.has_ids
        assert [text.text for text in found.rows] == ["a", "half \N{REPLACEMENT CHARACTER}"]


def test_what_was_read_of_the_input_is_known(tmp_path):
    (tmp_path / "t.txt").write_text("a\n" * 9)
    for path in (tmp_path / "t.txt", written(tmp_path, ".parquet")):
        with open_texts(path) as found:
            list(found.rows)
            assert found.done() == 1.0


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.tsv", b"", "is empty; expected a header"),
        ("t.csv", b"", "is empty; expected a header"),
        ("t.jsonl", b"\n", "is empty; expected a JSON object"),
        ("t.tsv", b"name\tyear\na\t1\n", "'name', 'year'; expected 'title' or 'text'.*--column"),
        ("t.tsv", b"title\tid\na\n", r"t.tsv:2: 1 columns; the header has 2"),
        ("t.tsv", b"title\nfine\n\xff\n", r"t.tsv:3: not UTF-8 at byte 1"),
        ("t.txt", b"fine\nca\xe9\n", r"t.txt:2: not UTF-8 at byte 3"),
        ("t.csv", b'title\n"open\n', "not CSV"),
        ("t.jsonl", b'{"title": "a"}\n{"title": 3}\n', r"jsonl:2: 'title' is 3; expected text"),
        ("t.jsonl", b'{"title": "a", "id": 1}\n{"title": "b"}\n', r"jsonl:2: 'id' is None"),
        ("t.jsonl", b"[]\n", r"jsonl:1: expected a JSON object"),
        ("t.jsonl", b"{\n", r"jsonl:1: not JSON"),
        ("t.parquet", b"PAR1", "is not a Parquet file"),
        ("t.txt.gz", gzip.compress(b"a\n" * 999, mtime=0)[:-9], "is not a whole gzip file"),
        ("t.tsv.gz", b"title\na\n", "is not a whole gzip file"),
        ("t.xlsx", b"", r"none of .txt, .tsv, .csv, .jsonl, .parquet"),
        ("t.parquet.gz", b"", "none of .txt"),
    ],
)
def test_bad_input_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("option", ["column", "id_column"])
def test_a_column_that_is_named_has_to_exist(tmp_path, option):
    with pytest.raises(UserError, match=r"no column 'x' \(--.*column\); its columns: 'doc_id'"):
        read(written(tmp_path, ".tsv"), **{option: "x"})
    (tmp_path / "t.txt").write_text("a\n")
    with pytest.raises(UserError, match="a text a line"):
        read(tmp_path / "t.txt", **{option: "x"})


def test_empty_cells_of_parquet_are_named(tmp_path):
    table = pyarrow.table({"title": ["a", None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"row 2: 'title' is None"):
        read(tmp_path / "t.parquet")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent.txt cannot be read: No such file"):
        read(tmp_path / "absent.txt")


def test_trouble_of_the_reader_is_not_blamed_on_the_input(tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    with pytest.raises(OSError, match="disk full"), open_texts(tmp_path / "t.txt"):
        raise OSError("disk full")
