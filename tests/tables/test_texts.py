import gzip
import io
import sys

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.texts import open_texts

ROWS = [("d1", "Red Hat"), ("d2", "Łódź, „quoted“"), ("d3", "")]


def read(path, **options):
    with open_texts(path, **options) as found:
        return [(text.id, text.text) for text in found.rows]


def test_row_i_of_a_text_file_is_line_i(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfone\r\n\n  two \n\n")
    texts = [(None, "one"), (None, ""), (None, "  two "), (None, "")]
    assert read(tmp_path / "t.txt") == texts
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    assert read(tmp_path / "t.txt.gz") == [(None, "one"), (None, "two")]


def test_standard_input_is_read_as_lines(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("a\nż\n".encode())))
    assert read("-") == [(None, "a"), (None, "ż")]


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


def test_what_was_read_of_the_input_is_known(write):
    with open_texts(write("t.txt", "a\n" * 9)) as found:
        list(found.rows)
        assert found.done() == 1.0


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.tsv", b"name\tyear\na\t1\n", "'name', 'year'; expected 'title' or 'text'.*--column"),
        ("t.txt", b"fine\nca\xe9\n", r"t.txt:2: not UTF-8 at byte 3"),
        ("t.jsonl", b'{"title": "a"}\n{"title": 3}\n', r"jsonl:2: 'title' is 3; expected text"),
        ("t.jsonl", b'{"title": "a", "id": 1}\n{"title": "b"}\n', r"jsonl:2: 'id' is None"),
        ("t.tsv", b"", "t.tsv is empty; expected the columns 'title'"),
        ("t.jsonl", b"", "t.jsonl is empty; expected the columns 'title'"),
        ("t.xlsx", b"", r"expected a name ending in .txt, .tsv, .csv, .jsonl, .parquet"),
        ("t.parquet.gz", b"", "expected a name ending in .txt"),
    ],
)
def test_bad_input_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("option", ["column", "id_column"])
def test_a_column_that_is_named_has_to_exist(write, option):
    path = write("t.tsv", "doc_id\ttitle\na\tb\n")
    with pytest.raises(UserError, match=r"the columns 'doc_id', 'title'; expected .*missing: x"):
        read(path, **{option: "x"})
    assert read(path, column=" TITLE") == [("a", "b")]
    with pytest.raises(UserError, match="a text a line"):
        read(write("t.txt", "a\n"), **{option: "x"})


def test_empty_cells_of_parquet_are_named(write_rows):
    path = write_rows("t.parquet", ("title",), [("a",), (None,)])
    with pytest.raises(UserError, match=r"row 2: 'title' is None"):
        read(path)


def test_trouble_of_the_reader_is_not_blamed_on_the_input(write):
    with pytest.raises(OSError, match="disk full"), open_texts(write("t.txt", "a\n")):
        raise OSError("disk full")
