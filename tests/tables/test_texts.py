import gzip

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.reader import read_texts

ROWS = [("d1", "Red Hat"), ("d2", "Łódź, „quoted“"), ("d3", "")]


def read(path, **options):
    return [(text.id, text.text) for text in read_texts(path, **options)]


def test_row_i_of_a_text_file_is_line_i(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbfone\r\n\n  two \n\n")
    texts = [(None, "one"), (None, ""), (None, "  two "), (None, "")]
    assert read(tmp_path / "t.txt") == texts
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    assert read(tmp_path / "t.txt.gz") == [(None, "one"), (None, "two")]


def test_the_side_chooses_the_columns_and_the_layout_may_rename_them(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("query_id\tquery\tdoc_id\ttitle\nq\twho\td\tHim\n")
    assert read(path) == [("d", "Him")]
    assert read(path, side="query") == [("q", "who")]
    layout = Layout(columns=parse_columns("title=query"))
    assert read(path, layout=layout) == [("d", "who")]


def test_without_an_id_column_there_are_no_ids(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n\n{"text": "half \\ud800"}\n')
    assert read(tmp_path / "t.jsonl") == [(None, "a"), (None, "half \N{REPLACEMENT CHARACTER}")]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.tsv", b"name\tyear\na\t1\n", "'name', 'year'; expected 'title'"),
        ("t.txt", b"fine\nca\xe9\n", r"t.txt:2: not UTF-8; say"),
        ("t.jsonl", b'{"title": "a"}\n{"title": 3}\n', r"jsonl:2: 'title' is 3; expected text"),
        ("t.jsonl", b'{"title": "a", "doc_id": 1}\n{"title": "b"}\n', r"jsonl:2: 'doc_id' is None"),
        ("t.tsv", b"", "t.tsv is empty; expected the columns 'title'"),
        ("t.xlsx", b"", r"expected a name ending in .txt, .tsv, .csv, .jsonl, .parquet"),
    ],
)
def test_bad_input_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


def test_empty_cells_of_parquet_are_named(write_rows):
    path = write_rows("t.parquet", ("title",), [("a",), (None,)])
    with pytest.raises(UserError, match=r"row 2: 'title' is None"):
        read(path)
