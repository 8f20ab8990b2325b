"""Checks the content of the files of a preprocessed directory before it is used.

Checksums find damage. These checks find files that are false although their checksums fit: other
columns and types, missing values, indices out of range, and small files that would fill the memory.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet
from pyarrow import types as arrow_types

from dssm_tf.common.errors import UserError

_HINT = "Run preprocess again."
_BASE = 1 << 20
"""Bytes, or values, that a file of any size may have."""
_MOST_VALUES = 16
"""Values of a column for each byte of a Parquet file; real ones have less than 2."""
_MOST_TEXT = 64
"""Bytes of text for each byte of a Parquet file; real ones have 2 to 10."""
_MOST_RECORDS = 128
"""Bytes of records for each byte of a gzip file; real ones have 2 to 60."""
_BLOCK = 1 << 20
_FRAME = 16
"""Bytes of a TFRecord besides its content: its length and two checksums."""


def _is_text(data_type: pa.DataType) -> bool:
    # Read as a dictionary, so that a text which a small file repeats is in memory once.
    return arrow_types.is_dictionary(data_type) and arrow_types.is_string(data_type.value_type)


def _is_int_list(data_type: pa.DataType) -> bool:
    is_list = arrow_types.is_list(data_type) or arrow_types.is_large_list(data_type)
    return is_list and arrow_types.is_integer(data_type.value_type)


_COLUMNS: Mapping[str, Mapping[str, Callable[[pa.DataType], bool]]] = {
    "queries": {"text": _is_text, "words": _is_int_list, "clicked": _is_int_list},
    "titles": {
        "text": _is_text,
        "words": _is_int_list,
        "clicks": arrow_types.is_integer,
        "queries": arrow_types.is_integer,
    },
}


def read_table(path: Path, kind: str, row_count: int, sizes: Mapping[str, int]) -> pa.Table:
    """Reads a table of queries or titles.

    Args:
        path: the Parquet file.
        kind: `queries` or `titles`.
        row_count: the number of its rows.
        sizes: the number of all `words` and `titles`.

    Raises:
        UserError: the file is not such a table.
    """
    try:
        with parquet.ParquetFile(path, read_dictionary=["text"]) as file:
            refuse(path, _table_problem(file, path.stat().st_size, kind, row_count))
            table = file.read()
    except (pa.ArrowException, KeyError, OSError) as error:  # KeyError: no column text
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(f"{path} is not a table of {kind}: {reason}. {_HINT}") from None
    if (size := _text_bytes(table["text"])) > _BASE + _MOST_TEXT * path.stat().st_size:
        refuse(path, f"its texts would become {size:,} bytes")
    for name in table.column_names:
        column = table[name].combine_chunks()
        values = column if name in ("text", "clicks", "queries") else column.values
        if column.null_count or values.null_count:
            refuse(path, f"a value of {name} is missing")
        most = {"words": sizes["words"], "clicked": sizes["titles"]}.get(name, 1 << 62)
        if name != "text":
            refuse(path, range_problem(name, values.to_numpy(), 0, most))
    return table.set_column(0, "text", table["text"].cast(pa.large_string()))


def _table_problem(file: parquet.ParquetFile, size: int, kind: str, row_count: int) -> str | None:
    """The problem of a Parquet file, before it is read; None if it has none."""
    columns, schema = _COLUMNS[kind], file.schema_arrow
    if schema.names != [*columns]:
        return f"it has the columns {schema.names!r:.100}; expected {', '.join(columns)}"
    for name, is_expected in columns.items():
        if not is_expected(schema.field(name).type):
            return f"{name} is of type {schema.field(name).type!s:.60}"
    if file.metadata.num_rows != row_count:
        return f"it has {file.metadata.num_rows:,} rows; expected {row_count:,}"
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.num_values > _BASE + _MOST_VALUES * size:
                return f"its {size:,} bytes would become {column.num_values:,} values"
    return None


def _text_bytes(column: pa.ChunkedArray) -> int:
    """The bytes of all texts of a column of dictionaries."""
    total = 0
    for chunk in column.chunks:
        lengths = compute.binary_length(chunk.dictionary)
        total += compute.sum(lengths.take(chunk.indices).cast(pa.int64())).as_py() or 0
    return total


def check_records(path: Path, row_count: int) -> None:
    """Checks a gzip file of TFRecords before TensorFlow reads it, without keeping it in memory.

    Raises:
        UserError: it does not have this number of records, or is much larger when unpacked.
    """
    try:
        with path.open("rb") as file, gzip.open(file) as records:
            refuse(path, _records_problem(records, path.stat().st_size, row_count))
    except (EOFError, OSError, zlib.error) as error:
        raise UserError(f"{path} is not a gzip file of records: {error}. {_HINT}") from None


def _records_problem(file: gzip.GzipFile, size: int, row_count: int) -> str | None:
    """The problem of the lengths of records; None if they have none."""
    most = _BASE + _MOST_RECORDS * size
    content, start, total, count = b"", 0, 0, 0
    while block := file.read(_BLOCK):
        total += len(block)
        if total > most:
            return f"its {size:,} bytes would become more than {most:,}"
        content, start = content[start:] + block, 0
        while len(content) - start >= _FRAME:
            (length,) = struct.unpack_from("<Q", content, start)
            if length > most:
                return f"a record has {length:,} bytes"
            if start + length + _FRAME > len(content):
                break
            start, count = start + length + _FRAME, count + 1
    if start < len(content):
        return "its last record is not complete"
    return None if count == row_count else f"it has {count:,} records; expected {row_count:,}"


def range_problem(name: str, values: NDArray[Any], low: float, high: float) -> str | None:
    """Says that a value is below `low`, or not below `high`; None if all are in this range."""
    if not values.size or (low <= values.min() and values.max() < high):
        return None
    return (
        f"{name} has values from {values.min()} to {values.max()}; expected {low} to below {high}"
    )


def refuse(path: Path, problem: str | None) -> None:
    """Raises UserError if there is a problem."""
    if problem is not None:
        raise UserError(f"{path}: {problem}. {_HINT}")
