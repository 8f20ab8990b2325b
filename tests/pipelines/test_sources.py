"""Every row is read once, however files are compressed and divided into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow, read_logs
from dssm_tf.tables.layout import Layout, Reject
from pipelines import sources
from pipelines.sources import find_files, open_piece, plan
from tests.tables.rows import read_log_rows, table_rows


def read(*patterns):
    files = find_files([str(pattern) for pattern in patterns], ignore_others=True).files
    pieces = join_pieces(plan(files, Layout()))
    rows = []
    for piece in pieces:
        with open_piece(piece, Layout()) as table:
            rows += table_rows(table)
    return pieces, rows


def join_pieces(pieces):
    """Joins the pieces of a file with quotes, as the pipeline does."""
    files = {}
    for piece in pieces:
        path, piece_and_has_quotes = sources._find_quotes(piece)
        files.setdefault(path, []).append(piece_and_has_quotes)
    return [piece for file in files.items() for piece in sources._join_pieces(file)]


def tsv(row_count, start=0):
    rows = "".join(f"query {n}\tTitle {n}\n" for n in range(start, start + row_count))
    return "query\ttitle\n" + rows


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=15),
    st.integers(1, 60),
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from(["tsv", "csv"]),
)
def test_each_row_is_read_once_for_every_size_of_pieces(
    tmp_path_factory, lengths, piece_bytes, block_bytes, ends_with_newline, suffix
):
    separator = {"tsv": "\t", "csv": ","}[suffix]
    lines = [f"{'q' * (1 + n)}{row}{separator}t{row}" for row, n in enumerate(lengths)]
    path = tmp_path_factory.mktemp("pieces") / f"log.{suffix}"
    text = "\n".join([f"query{separator}title", *lines]) + "\n" * ends_with_newline
    path.write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "MIN_PIECE_BYTES", piece_bytes)
        patch.setattr(sources, "PIECES", 1000)
        patch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", block_bytes)
        pieces, rows = read(path)
    assert [f"{row.query}{separator}{row.title}" for row in rows] == lines
    assert len(pieces) == -(-path.stat().st_size // piece_bytes)


def test_a_line_that_is_too_long_is_rejected_once(write, monkeypatch):
    monkeypatch.setattr(sources, "MIN_PIECE_BYTES", 1000)
    monkeypatch.setattr(sources, "PIECES", 1000_000)
    long = "x" * (sources.MAX_LINE_BYTES + 5000)
    pieces, rows = read(write("log.tsv", f"query\ttitle\na\tb\n{long}\nc\td\n"))
    assert len(pieces) > 1000
    assert rows == [LogRow("a", "b"), Reject(3, "line too long", "x" * 500), LogRow("c", "d")]


def test_a_file_with_quoted_line_ends_is_a_single_piece(write, monkeypatch):
    monkeypatch.setattr(sources, "MIN_PIECE_BYTES", 10)
    pieces, rows = read(write("log.csv", 'query,title\n"a","one\ntwo\nthree"\n"b","four"\n'))
    assert len(pieces) == 1
    assert rows == [LogRow("a", "one two three"), LogRow("b", "four")]


def test_globs_directories_and_compressed_files_are_read(write, tmp_path):
    write("a.tsv", tsv(3))
    write("b.tsv.gz", tsv(2, 10))
    write("c.jsonl.gz", '{"query": "q", "title": "t"}\n')
    write("notes.txt", "not a log")
    write(".hidden.tsv", "not a log")
    assert len(read(tmp_path)[1]) == 6
    assert len(read(tmp_path / "*.tsv*", tmp_path / "a.tsv")[1]) == 5


def test_globs_are_relative_and_paths_may_contain_brackets(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bracketed = "logs [2024]/clicks[1].tsv"
    for name in ("clicks-1.tsv", "clicks-2.tsv", "clicks1.tsv", "deep/clicks-3.tsv", bracketed):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(name, tsv(2))
    for pattern, expected in {
        "click*-?.tsv": ["clicks-1.tsv", "clicks-2.tsv"],
        "d*/*.tsv": ["deep/clicks-3.tsv"],
        bracketed: [bracketed],
        "logs [2024]": [bracketed],
    }.items():
        assert [file.path for file in find_files([pattern]).files] == expected
    assert len(read(bracketed)[1]) == 2


def test_an_input_without_a_file_or_with_an_unknown_format_is_refused(write, tmp_path):
    with pytest.raises(UserError, match="matches no file"):
        find_files([str(tmp_path / "*.tsv")])
    with pytest.raises(UserError, match=r"log.xlsx has an unknown format; expected .*\.tsv"):
        find_files([str(write("log.xlsx", "x"))])


def test_empty_files_are_skipped_unless_all_are_empty(write, tmp_path):
    write("part-0.tsv", "")
    with pytest.raises(UserError, match="no rows"):
        find_files([str(tmp_path)])
    write("part-1.tsv", tsv(2))
    assert len(read(tmp_path)[1]) == 2


BOM = "\N{BYTE ORDER MARK}".encode()
EMPTY = {
    "p0.tsv.gz": b"",
    "p1.csv.gz": b"\n\n",
    "p2.tsv": b"\n",
    "p3.csv": BOM,
    "p4.jsonl.gz": BOM + b"\n",
}
"""Files of a byte or more without a header; `write` compresses those that end in .gz."""


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_compressed_part_is_skipped(write, tmp_path, name):
    write(name, EMPTY[name])
    write("q0.tsv", tsv(2))
    write("q1.tsv.gz", tsv(3, 2))
    expected = [LogRow(f"query {n}", f"Title {n}") for n in range(5)]
    assert read(tmp_path)[1] == expected
    assert read_log_rows(*find_files([str(tmp_path)]).paths, required=("title",)) == expected


def test_files_that_are_all_empty_are_an_error(write, tmp_path):
    for name, data in EMPTY.items():
        write(name, data)
    tables = [tmp_path / name for name in EMPTY if "jsonl" not in name]
    with pytest.raises(UserError, match=r"p0\.tsv\.gz .*p3\.csv hold no rows; are they the right"):
        read(*tables)
    with pytest.raises(UserError, match="holds no usable rows"):
        read_logs([tmp_path / name for name in EMPTY])
    for path in tables:
        with pytest.raises(UserError, match=r"is empty; expected the columns 'query', 'title'\."):
            read(path)
        with pytest.raises(UserError, match=r"is empty; expected the columns 'query', 'title'\."):
            read_logs([path])


def test_a_header_without_the_columns_of_a_log_is_refused_by_the_plan(write):
    with pytest.raises(UserError, match="has the columns 'term', 'doc'"):
        read(write("log.csv", "term,doc\na,b\n"))
