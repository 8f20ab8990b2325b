"""Every row of every file is read once, however files are compressed and cut."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow, log_blocks
from dssm_tf.tables.layout import Layout, Reject
from pipelines import sources
from pipelines.sources import find_files, opened, plan


def read(*patterns):
    pieces = plan(find_files([str(pattern) for pattern in patterns]), Layout())
    return pieces, [row for piece in pieces for row in rows_of(piece)]


def rows_of(piece):
    """The good rows of each block, then its rejects."""
    with opened(piece, Layout()) as table:
        for rows, rejects in log_blocks(table):
            yield from map(LogRow._make, zip(*(one.to_pylist() for one in rows), strict=True))
            yield from rejects


def tsv(number, start=0):
    rows = "".join(f"query {n}\tTitle {n}\n" for n in range(start, start + number))
    return "query\ttitle\n" + rows


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=30),
    st.integers(1, 60),
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from(["tsv", "csv"]),
)
def test_rows_are_read_once_wherever_a_file_is_cut(
    tmp_path_factory, lengths, size, block, last_end, kind
):
    sign = {"tsv": "\t", "csv": ","}[kind]
    lines = [f"{'q' * (1 + n)}{at}{sign}t{at}" for at, n in enumerate(lengths)]
    path = tmp_path_factory.mktemp("cut") / f"log.{kind}"
    path.write_text(f"query{sign}title\n" + "\n".join(lines) + ("\n" if last_end else ""), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "MIN_PIECE_BYTES", size)
        patch.setattr(sources, "PIECES", 1000)
        patch.setattr("dssm_tf.tables.lines.BLOCK_BYTES", block)
        pieces, rows = read(path)
    assert [f"{row.query}{sign}{row.title}" for row in rows] == lines
    assert len(pieces) == -(-path.stat().st_size // size)


def test_an_endless_line_is_a_reject_and_read_to_its_end_by_one_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MIN_PIECE_BYTES", 1000)
    monkeypatch.setattr(sources, "PIECES", 1000_000)
    long = "x" * (sources.MAX_LINE_BYTES + 5000)
    path = tmp_path / "log.tsv"
    path.write_text(f"query\ttitle\na\tb\n{long}\nc\td\n", "utf-8")
    pieces, rows = read(path)
    assert len(pieces) > 1000
    assert rows == [LogRow("a", "b"), Reject(3, "line too long", "x" * 500), LogRow("c", "d")]


def test_a_file_whose_cells_may_hold_line_ends_is_not_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MIN_PIECE_BYTES", 10)
    path = tmp_path / "log.csv"
    path.write_text('query,title\n"a","one\ntwo\nthree"\n"b","four"\n', "utf-8")
    pieces, rows = read(path)
    assert len(pieces) == 1
    assert rows == [LogRow("a", "one two three"), LogRow("b", "four")]


def test_globs_directories_and_compressed_files_are_read(tmp_path):
    (tmp_path / "a.tsv").write_text(tsv(3), "utf-8")
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(tsv(2, 10).encode()))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b'{"query": "q", "title": "t"}\n'))
    (tmp_path / "notes.txt").write_text("not a log", "utf-8")
    (tmp_path / ".hidden.tsv").write_text("not a log", "utf-8")
    assert len(read(tmp_path)[1]) == 6
    assert len(read(tmp_path / "*.tsv*", tmp_path / "a.tsv")[1]) == 5


def test_a_glob_is_matched_in_the_current_folder_and_brackets_of_a_file_are_letters(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    odd = "logs [2024]/clicks[1].tsv"
    for name in ("clicks-1.tsv", "clicks-2.tsv", "clicks1.tsv", "deep/clicks-3.tsv", odd):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(tsv(2), "utf-8")
    for pattern, expected in {
        "click*-?.tsv": ["clicks-1.tsv", "clicks-2.tsv"],
        "d*/*.tsv": ["deep/clicks-3.tsv"],
        odd: [odd],
        "logs [2024]": [odd],
    }.items():
        assert [one.path for one in find_files([pattern])] == expected
    assert len(read(odd)[1]) == 2


def test_an_input_that_matches_nothing_or_is_of_no_known_format_is_refused(tmp_path):
    with pytest.raises(UserError, match="matches no file"):
        find_files([str(tmp_path / "*.tsv")])
    (tmp_path / "log.xlsx").write_text("x", "utf-8")
    with pytest.raises(UserError, match=r"log.xlsx is of no known format; expected .*\.tsv"):
        find_files([str(tmp_path / "log.xlsx")])


def test_empty_files_are_passed_over_unless_all_are(tmp_path):
    (tmp_path / "part-0.tsv").write_text("", "utf-8")
    with pytest.raises(UserError, match="no rows"):
        find_files([str(tmp_path)])
    (tmp_path / "part-1.tsv").write_text(tsv(2), "utf-8")
    assert len(read(tmp_path)[1]) == 2


def test_a_header_that_is_not_a_click_logs_is_refused_before_anything_runs(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("term,doc\na,b\n", "utf-8")
    with pytest.raises(UserError, match="has the columns 'term', 'doc'"):
        plan(find_files([str(path)]), Layout())
