"""Lines of cells with a separator and without quotes: TSV, TREC, and plain text."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow_csv

from dssm_tf.tables.batches import (
    LINE,
    Batch,
    RowBuilder,
    bad_text,
    clicks_of,
    too_long,
    wrong_count,
)
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.columns import WHITE_SPACE, Column, unchanged
from dssm_tf.tables.layout import Layout, Reject, reject
from dssm_tf.tables.lines import LineBlock, undecodable

_MAX_ARROW_BYTES = 1 << 30


def read_lines(
    block: LineBlock,
    layout: Layout,
    names: Sequence[str],
    columns: Sequence[Column],
    separator: str | None,
) -> Batch:
    """Splits a block of lines at a separator; with None, each line is one cell."""
    wanted = [column.name for column in columns if column.name in names]
    empty = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String) | {LINE: pl.Int64})
    if block.too_long:
        text = block.data.decode("utf-8", "backslashreplace")
        clicks = clicks_of([text] if separator is None else text.split(separator), names)
        bad = reject(block.first, too_long(layout), block.data, clicks)
        return Batch(empty, [bad], str)
    rejects: list[Reject] = []
    data = block.data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        data = data if separator is None else data.replace(b"\r", b" ")  # Arrow ends a line at \r
    line_numbers: Sequence[int] = range(block.first, block.first + data.count(b"\n"))
    if undecodable(data):
        data, line_numbers, rejects = _drop_undecodable_lines(
            data, block.first, layout, names, separator
        )
        if not data:
            return Batch(empty, rejects, str)

    row_text = _line_texts(block)
    # Arrow drops a byte order mark.
    unfit_for_arrow = len(data) > _MAX_ARROW_BYTES or data.startswith(BOM_UTF8)
    if separator is None or len(names) < 2 or unfit_for_arrow:
        rows = [line.decode() for line in data.removesuffix(b"\n").split(b"\n")]
        frame, bad_rows = _read_line_by_line(rows, [*line_numbers], names, wanted, separator)
    else:
        frame, bad_rows = _read_table(data, line_numbers, names, wanted, separator)
    if separator is not None:
        frame = _drop_blank_rows(frame, wanted, row_text)
    return Batch(frame, sorted([*rejects, *bad_rows], key=lambda row: row.line), row_text)


def _drop_undecodable_lines(
    data: bytes, first: int, layout: Layout, names: Sequence[str], separator: str | None
) -> tuple[bytes, list[int], list[Reject]]:
    """Separates lines of UTF-8, with their numbers, from other lines, which become rejects."""
    good, line_numbers, rejects = [], [], []
    for line_number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), start=first):
        if undecodable(line):
            text = line.decode("utf-8", "backslashreplace")
            clicks = clicks_of([text] if separator is None else text.split(separator), names)
            rejects.append(reject(line_number, bad_text(layout), line, clicks))
        else:
            good.append(line)
            line_numbers.append(line_number)
    return b"".join(line + b"\n" for line in good), line_numbers, rejects


def _read_table(
    data: bytes,
    numbers: Sequence[int],
    names: Sequence[str],
    wanted: Sequence[str],
    separator: str,
) -> tuple[pl.DataFrame, list[Reject]]:
    """Lines of UTF-8 as columns, and lines with a wrong number of cells as rejects."""
    invalid: list[Any] = []

    def skip(row: Any) -> str:
        invalid.append(row)
        return "skip"

    indices = [f"{index}" for index, _ in enumerate(names)]  # names may repeat
    by_name = {name: index for index, name in zip(indices, names, strict=True)}
    table = arrow_csv.read_csv(
        pa.py_buffer(data),
        arrow_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=indices),
        arrow_csv.ParseOptions(
            delimiter=separator,
            quote_char=False,
            ignore_empty_lines=False,
            invalid_row_handler=skip,
        ),
        arrow_csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(indices, pa.string()),
            include_columns=[by_name[name] for name in wanted],
        ),
    )
    frame = pl.DataFrame(
        [pl.Series(name, column) for name, column in zip(wanted, table, strict=True)]
    )
    rows = pl.Series(LINE, numbers, dtype=pl.Int64)
    rejects = []
    if invalid:
        good = pl.repeat(True, len(rows), eager=True)
        invalid_rows = [row.number - 1 for row in invalid]
        frame = frame.with_columns(rows.filter(good.scatter(invalid_rows, False)))
        for row, index in zip(invalid, invalid_rows, strict=True):
            if row.text.strip():
                bad = wrong_count(row.actual_columns, names)
                clicks = clicks_of(row.text.split(separator), names)
                rejects.append(reject(numbers[index], bad, row.text, clicks))
        return frame, rejects
    return frame.with_columns(rows), rejects


def _read_line_by_line(
    rows: Sequence[str],
    numbers: Sequence[int],
    names: Sequence[str],
    wanted: Sequence[str],
    separator: str | None,
) -> tuple[pl.DataFrame, list[Reject]]:
    """Does what `_read_table` does, line by line: for one column, or blocks unfit for Arrow."""
    builder = RowBuilder(names, wanted)
    for number, row in zip(numbers, rows, strict=True):
        if separator is None or row.strip():
            builder.add(number, [row] if separator is None else row.split(separator), row)
    batch = builder.batch()
    return batch.frame, batch.rejects


def _line_texts(block: LineBlock) -> Callable[[int], bytes]:
    """A function from a line number to the line of a block."""
    split = cache(lambda: block.data.split(b"\n"))
    return lambda line: split()[line - block.first]


def _drop_blank_rows(
    frame: pl.DataFrame, wanted: Sequence[str], row_text: Callable[[int], bytes]
) -> pl.DataFrame:
    """Drops lines that consist of white space."""
    empty = frame.select(
        pl.all_horizontal(pl.col(*wanted).str.strip_chars(WHITE_SPACE) == "")
    ).to_series()
    if not empty.any():
        return frame
    # Columns that are not in the frame may have text.
    blank = [line for line in frame[LINE].filter(empty) if not row_text(line).decode().strip()]
    return frame.filter(~pl.col(LINE).is_in(blank))


def read_trec_lines(
    block: LineBlock, layout: Layout, names: Sequence[str], columns: Sequence[Column]
) -> Batch:
    """Splits a block of lines at white space."""
    batch = read_lines(block, layout, ("text",), [unchanged("text")], None)
    cells = batch.frame["text"].str.extract_all(f"[^{re.escape(WHITE_SPACE)}]+")
    counts = cells.list.len()
    rejects = [
        reject(
            line,
            BadRow("wrong column count", f"{count} columns; expected {' '.join(names)}"),
            text,
        )
        for text, line, count in batch.frame.with_columns(count=counts)
        .filter((counts > 0) & (counts != len(names)))
        .iter_rows()
    ]
    good = counts == len(names)
    frame = pl.DataFrame(
        [
            *(
                cells.filter(good).list.get(names.index(column.name)).alias(column.name)
                for column in columns
            ),
            batch.frame[LINE].filter(good),
        ]
    )
    in_order = sorted([*batch.rejects, *rejects], key=lambda row: row.line)
    return Batch(frame, in_order, batch.row_text)
