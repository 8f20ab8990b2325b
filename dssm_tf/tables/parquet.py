"""Parquet files, with all types of text that Arrow and Polars write.

A small file can repeat a long text many times. A column whose dictionary has a long text is
therefore read as indices into its distinct texts, and decoded in batches of limited size. Other
columns are read as texts, which is several times faster if most texts are distinct.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import IO

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import compute, parquet

from dssm_tf.tables.batches import LINE, Batch, Contents, too_long, wrong_kind
from dssm_tf.tables.cells import BadRow, lost_clicks
from dssm_tf.tables.columns import Column
from dssm_tf.tables.layout import Layout, reject
from dssm_tf.tables.lines import reading
from dssm_tf.tables.parquet_cells import INDEXABLE, LIST_ROWS, cell_bytes, check_sizes, is_text

_BATCH_ROWS = 1 << 15
_BATCH_BYTES = 1 << 24  # of the texts of a batch; one row may have more
_LONG_TEXT = 1 << 10  # a batch of shorter texts has at most 32 MiB per column


def open_parquet(file: IO[bytes], where: str, layout: Layout) -> Contents:
    """Opens a file and reads its schema."""
    with reading(where):
        parquet_file = parquet.ParquetFile(file)
        names_in_file = tuple(parquet_file.schema_arrow.names)
    names = tuple(map(layout.name, names_in_file))
    count = 0

    def batches(columns: Sequence[Column]) -> Iterator[Batch]:
        nonlocal count
        wanted = [column for column in columns if column.name in names]
        file_names = [names_in_file[names.index(column.name)] for column in wanted]
        with reading(where):
            check_sizes(file, parquet_file.metadata, file_names, layout.max_line_bytes)
            for rows in _record_batches(file, parquet_file, file_names):
                for part in _limited_batches(rows):
                    yield _parquet_batch(part, wanted, file_names, layout, count + 1)
                    count += len(part)

    return Contents(
        names,
        names_in_file,
        batches,
        lambda: count,
        lambda: False,
        row_format="{}, row {}",
    )


def _record_batches(
    file: IO[bytes], parquet_file: parquet.ParquetFile, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Reads columns without decoding many repeats of a long text at once."""
    if not names:
        return
    types = {name: parquet_file.schema_arrow.field(name).type for name in names}
    encodings = _encodings(parquet_file.metadata)
    # Arrow cannot read these as indices.
    others = {
        name
        for name, type in types.items()
        if not encodings[name] <= INDEXABLE
        or pa.types.is_nested(_value_type(type))
        or pa.types.is_fixed_size_binary(type)
    }
    texts = {name for name in names if is_text(types[name])} - others
    indexed = _columns_with_long_texts(file, parquet_file.metadata, texts)
    if indexed:
        metadata = parquet_file.metadata
        parquet_file = parquet.ParquetFile(file, metadata=metadata, read_dictionary=indexed)
    if not others:
        yield from parquet_file.iter_batches(_BATCH_ROWS, columns=[*names])
        return
    waiting: list[pa.RecordBatch] = []
    for rows in parquet_file.iter_batches(LIST_ROWS, columns=[*names]):
        waiting.append(rows)
        size = sum(batch.nbytes for batch in waiting)
        if len(waiting) * LIST_ROWS >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield from _joined(waiting)
            waiting = []
    yield from _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of the batches, usually as one batch."""
    if batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _encodings(metadata: parquet.FileMetaData) -> dict[str, set[str]]:
    """The encodings of each column; those of a nested column are of all its parts."""
    encodings: dict[str, set[str]] = {}
    names = metadata.schema.to_arrow_schema().names
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            encodings.setdefault(chunk.path_in_schema, set()).update(chunk.encodings)
    return {
        name: set().union(
            *(used for path, used in encodings.items() if f"{path}.".startswith(f"{name}."))
        )
        for name in names
    }


def _columns_with_long_texts(
    file: IO[bytes], metadata: parquet.FileMetaData, names: Iterable[str]
) -> list[str]:
    """The text columns whose dictionaries have a text longer than `_LONG_TEXT` bytes.

    Each part of a column has one dictionary, which is read with its first row.
    """
    columns = sorted(names)
    long: set[str] = set()
    if columns:
        reader = parquet.ParquetFile(file, metadata=metadata, read_dictionary=columns)
        for group in range(metadata.num_row_groups):
            for rows in reader.iter_batches(1, row_groups=[group], columns=columns):
                for name in columns:
                    sizes = cell_bytes(rows.column(name).dictionary)
                    if sizes.max(initial=0) > _LONG_TEXT:
                        long.add(name)
                break
    return sorted(long)


def _limited_batches(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch whose texts have at most `_BATCH_BYTES`, or that are one row."""
    ends = np.cumsum(sum(map(cell_bytes, rows.columns), np.zeros(len(rows), np.int64)))
    start = read = 0
    while start < len(rows):
        end = max(int(np.searchsorted(ends, read + _BATCH_BYTES, "right")), start + 1)
        yield rows.slice(start, end - start)
        start, read = end, int(ends[end - 1])


def _parquet_batch(
    rows: pa.RecordBatch,
    wanted: Sequence[Column],
    file_names: Sequence[str],
    layout: Layout,
    first: int,
) -> Batch:
    series: list[pl.Series] = []
    bad: dict[int, BadRow] = {}
    for column, name in zip(wanted, file_names, strict=True):
        values = rows.column(name)
        is_nested = pa.types.is_nested(_value_type(values.type))
        max_bytes = min(layout.max_line_bytes, _BATCH_BYTES) if is_nested else layout.max_line_bytes
        too_large = cell_bytes(values) > max_bytes
        if too_large.any():
            for row in np.flatnonzero(too_large).tolist():
                bad.setdefault(row, too_long(replace(layout, max_line_bytes=max_bytes)))
            values = values.take(pa.array(range(len(values)), mask=too_large))
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
    """The JSON type of a column's values; times and unknown types are text."""
    types = pa.types
    type = _value_type(type)
    if types.is_boolean(type):
        return bool
    if types.is_integer(type):
        return int
    if types.is_floating(type) or types.is_decimal(type):
        return float
    return dict if types.is_nested(type) else str


def _value_type(type: pa.DataType) -> pa.DataType:
    """The type of the values of extension, dictionary and run-end encoded types."""
    if isinstance(type, pa.BaseExtensionType):
        return _value_type(type.storage_type)
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return _value_type(type.value_type)
    return type


def _strings(column: pa.Array) -> tuple[pl.Series, list[int]]:
    """The cells of a column as strings, and the rows whose bytes are not UTF-8.

    Times become text, because those of Python end with the year 9999.
    """
    types = pa.types
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if types.is_dictionary(column.type):
        if len(column.dictionary) > len(column):
            return _strings(column.dictionary_decode())
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
    if is_text(type):
        return _texts(column)
    return _series(column.cast(pa.string())), []


def _decimal(cell: str | None) -> str | None:
    """A decimal number without trailing zeros, which a reader may take for thousands."""
    return cell.rstrip("0").rstrip(".") if cell and "." in cell else cell


def _texts(column: pa.Array) -> tuple[pl.Series, list[int]]:
    """Texts, with null where they are not UTF-8, and the rows of such cells."""
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
    """Converts an Arrow column of strings to Polars."""
    return pl.Series(column).cast(pl.String)
