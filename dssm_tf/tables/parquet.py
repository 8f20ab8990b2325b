"""Parquet files, whatever Arrow and Polars write for text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

import polars as pl
import pyarrow as pa
from pyarrow import compute, parquet

from dssm_tf.tables.batches import LINE, Batch, Contents, wrong_kind
from dssm_tf.tables.cells import BadRow, lost_clicks
from dssm_tf.tables.columns import Column
from dssm_tf.tables.layout import Layout, reject
from dssm_tf.tables.lines import reading

_BATCH_ROWS = 1 << 13


def open_parquet(file: IO[bytes], where: str, layout: Layout) -> Contents:
    """Reads the schema of a file."""
    with reading(where):
        opened = parquet.ParquetFile(file)
        names_in_file = tuple(opened.schema_arrow.names)
    names = tuple(map(layout.name, names_in_file))
    count = 0

    def batches(columns: Sequence[Column]) -> Iterator[Batch]:
        nonlocal count
        wanted = [column for column in columns if column.name in names]
        theirs = [names_in_file[names.index(column.name)] for column in wanted]
        with reading(where):
            # By place: a name with a dot would stand for what is nested.
            for rows in _record_batches(opened, theirs):
                yield _parquet_batch(rows, wanted, theirs, layout, count + 1)
                count += len(rows)

    return Contents(
        names,
        names_in_file,
        batches,
        lambda: count,
        lambda: False,
        row_format="{}, row {}",
    )


def _record_batches(file: parquet.ParquetFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if names:
        yield from file.iter_batches(_BATCH_ROWS, columns=[*names])


def _parquet_batch(
    rows: pa.RecordBatch,
    wanted: Sequence[Column],
    theirs: Sequence[str],
    layout: Layout,
    first: int,
) -> Batch:
    series: list[pl.Series] = []
    bad: dict[int, BadRow] = {}
    for column, name in zip(wanted, theirs, strict=True):
        values = rows.column(name)
        cells, undecoded = _strings(values)
        for row in undecoded:
            bad.setdefault(row, BadRow("bad UTF-8", f"{name!r} is not UTF-8"))
        if _kind(values.type) not in column.kinds:
            for row, cell in enumerate(cells.to_list()):
                if cell is not None:
                    bad.setdefault(row, wrong_kind(cell, column, layout))
        series.append(cells.alias(column.name))
    numbers = pl.Series(LINE, range(first, first + len(rows)), dtype=pl.Int64)
    frame = pl.DataFrame([*series, numbers])

    def row_text(line: int) -> dict[str, object]:
        row = frame.select(column.name for column in wanted).row(line - first, named=True)
        return dict(row)

    rejects = []
    for row, reason in sorted(bad.items()):
        clicks = lost_clicks(frame["clicks"][row]) if "clicks" in frame.columns else 1
        rejects.append(reject(first + row, reason, row_text(first + row), clicks))
    good = frame.filter(~pl.int_range(len(frame), eager=True).is_in([*bad])) if bad else frame
    return Batch(good, rejects, row_text)


def _kind(type: pa.DataType) -> type:
    """The kind of JSON that a column's values are; times and unknown types count as text."""
    types = pa.types
    type = _plain(type)
    if types.is_boolean(type):
        return bool
    if types.is_integer(type):
        return int
    if types.is_floating(type) or types.is_decimal(type):
        return float
    return dict if types.is_nested(type) else str


def _plain(type: pa.DataType) -> pa.DataType:
    """The type of the values of extensions and dictionaries."""
    if isinstance(type, pa.BaseExtensionType):
        return _plain(type.storage_type)
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return _plain(type.value_type)
    return type


def _strings(column: pa.Array) -> tuple[pl.Series, list[int]]:
    """A column's cells as strings, and the rows of those whose bytes are not UTF-8.

    Times are text, because Python's own end with the year 9999.
    """
    types = pa.types
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if types.is_dictionary(column.type):
        cells, bad = _strings(column.dictionary)
        indices = pl.Series(column.indices.to_pylist(), dtype=pl.UInt32)
        undecoded = indices.is_in(bad).fill_null(False).arg_true().to_list() if bad else []
        return cells.gather(indices), undecoded
    if types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    type = column.type
    if types.is_nested(type):
        return pl.Series(
            [
                None if cell is None else json.dumps(cell, default=str)
                for cell in column.to_pylist()
            ],
            dtype=pl.String,
        ), []
    if types.is_floating(type) or types.is_decimal(type):
        values = (None if cell is None else str(cell) for cell in column.to_pylist())
        if types.is_decimal(type):
            values = (_decimal(cell) for cell in values)
        return pl.Series([*values], dtype=pl.String), []
    if _is_text(type):
        return _texts(column)
    return _series(column.cast(pa.string())), []


def _decimal(cell: str | None) -> str | None:
    """A decimal number without zeros at its end, which another reader may take for thousands."""
    return cell.rstrip("0").rstrip(".") if cell and "." in cell else cell


def _is_text(type: pa.DataType) -> bool:
    types = pa.types
    return any(
        test(type)
        for test in (
            types.is_string, types.is_large_string, types.is_string_view, types.is_binary,
            types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary,
        )
    )  # fmt: skip


def _texts(column: pa.Array) -> tuple[pl.Series, list[int]]:
    """Texts, and the rows of those that are not UTF-8, which become null."""
    try:
        if pa.types.is_fixed_size_binary(column.type):
            column = column.cast(pa.binary())
        texts = column.cast(pa.large_string())
        texts.validate(full=True)
        return _series(texts), []
    except pa.ArrowInvalid:
        pass
    cells: list[str | None] = []
    bad: list[int] = []
    for row, cell in enumerate(_bytes(column)):
        try:
            cells.append(None if cell is None else cell.decode())
        except UnicodeDecodeError:
            cells.append(None)
            bad.append(row)
    return pl.Series(cells, dtype=pl.String), bad


def _bytes(column: pa.Array) -> Iterable[bytes | None]:
    binary = pa.large_binary()
    return [None if cell is None else bytes(cell) for cell in column.cast(binary).to_pylist()]


def _series(column: pa.Array) -> pl.Series:
    """An Arrow column of strings as Polars has it."""
    return pl.Series(column).cast(pl.String)
