"""Every row of every file is read once, however files are compressed and cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow
from dssm_tf.tables.layout import Layout, Reject
from pipelines import sources
from pipelines.sources import find_files, open_piece, plan
from tests.tables.rows import rows_of


def read(*patterns):
    files = find_files([str(pattern) for pattern in patterns], ignore_others=True).files
    pieces = joined(plan(files, Layout()))
    rows = []
    for piece in pieces:
        with open_piece(piece, Layout()) as table:
            rows += rows_of(table)
    return pieces, rows


def joined(pieces):
    """The pieces that are read: one of a file with quotes."""
    files = {}
    for piece in pieces:
        path, found = sources._with_quotes(piece)
        files.setdefault(path, []).append(found)
    return [piece for found in files.items() for piece in sources._joined(found)]


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


def test_an_endless_line_is_a_reject_and_read_to_its_end_by_one_piece(write, monkeypatch):
    monkeypatch.setattr(sources, "MIN_PIECE_BYTES", 1000)
    monkeypatch.setattr(sources, "PIECES", 1000_000)
    long = "x" * (sources.MAX_LINE_BYTES + 5000)
    pieces, rows = read(write("log.tsv", f"query\ttitle\na\tb\n{long}\nc\td\n"))
    assert len(pieces) > 1000
    assert rows == [LogRow("a", "b"), Reject(3, "line too long", "x" * 500), LogRow("c", "d")]


def test_a_file_whose_cells_may_hold_line_ends_is_not_cut(write, monkeypatch):
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


def test_a_glob_is_matched_in_the_current_folder_and_brackets_of_a_file_are_letters(
    write, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    odd = "logs [2024]/clicks[1].tsv"
    for name in ("clicks-1.tsv", "clicks-2.tsv", "clicks1.tsv", "deep/clicks-3.tsv", odd):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(name, tsv(2))
    for pattern, expected in {
        "click*-?.tsv": ["clicks-1.tsv", "clicks-2.tsv"],
        "d*/*.tsv": ["deep/clicks-3.tsv"],
        odd: [odd],
        "logs [2024]": [odd],
    }.items():
        assert [one.path for one in find_files([pattern]).files] == expected
    assert len(read(odd)[1]) == 2


def test_an_input_that_matches_nothing_or_is_of_no_known_format_is_refused(write, tmp_path):
    with pytest.raises(UserError, match="matches no file"):
        find_files([str(tmp_path / "*.tsv")])
    with pytest.raises(UserError, match=r"log.xlsx is of no known format; expected .*\.tsv"):
        find_files([str(write("log.xlsx", "x"))])


def test_empty_files_are_passed_over_unless_all_are(write, tmp_path):
    write("part-0.tsv", "")
    with pytest.raises(UserError, match="no rows"):
        find_files([str(tmp_path)])
    write("part-1.tsv", tsv(2))
    assert len(read(tmp_path)[1]) == 2


def test_a_header_that_is_not_a_click_logs_is_refused_before_anything_runs(write):
    with pytest.raises(UserError, match="has the columns 'term', 'doc'"):
        read(write("log.csv", "term,doc\na,b\n"))
