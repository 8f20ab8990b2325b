"""Tables of texts: files of lines, columns, ids and empty cells."""

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.tables.layout import Layout, parse_columns
from dssm_tf.tables.read import scan_texts

ROWS = [("d1", "Red Hat"), ("d2", "Łódź, „quoted“"), ("d3", "")]


def read(path, **options):
    return [row for frame in scan_texts(path, **options) for row in frame.iter_rows()]


def test_row_i_of_a_text_file_is_line_i(write):
    path = write("t.txt", b"\xef\xbb\xbfone\r\n\n  two \n\n")
    texts = [(None, "one"), (None, ""), (None, "  two "), (None, "")]
    assert read(path) == texts
    assert read(write("t.txt.gz", b"one\ntwo")) == [(None, "one"), (None, "two")]


def test_the_side_selects_the_columns_and_the_layout_renames_them(write):
    path = write("t.tsv", "query_id\tquery\tdoc_id\ttitle\nq\twho\td\tHim\n")
    assert read(path) == [("d", "Him")]
    assert read(path, side="query") == [("q", "who")]
    layout = Layout(columns=parse_columns("title=query"))
    assert read(path, layout=layout) == [("d", "who")]


def test_ids_are_null_without_an_id_column(write):
    path = write("t.jsonl", '{"text": "a"}\n\n{"text": "half \\ud800"}\n')
    assert read(path) == [(None, "a"), (None, "half \N{REPLACEMENT CHARACTER}")]


def test_empty_cells_of_parquet_are_named(write_rows):
    path = write_rows("t.parquet", ("title",), [("a",), (None,)])
    with pytest.raises(UserError, match=r"row 2: 'title' is None"):
        read(path)
