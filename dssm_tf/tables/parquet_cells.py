"""Sizes of the cells of Parquet files; lists that a small file makes enormous are refused.

A list of one row may repeat a long text, or a number, millions of times in a few bytes of the file.
Arrow decodes a complete row at once, so its size is checked before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import IO

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

INDEXABLE = {"PLAIN", "RLE", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "BIT_PACKED"}
"""The encodings of texts that Arrow can read as indices into distinct texts."""
LIST_ROWS = 1 << 6
"""The number of rows with lists that are decoded at once."""
MAX_LIST_BYTES = 1 << 28
"""The bytes that the lists of `LIST_ROWS` rows may need in memory."""
_VALUE_BYTES = 16  # of a number, or of an index and its levels
_JSON_BYTES = 3  # of the shortest value of a list, with its separator


def is_text(type: pa.DataType) -> bool:
    """Whether a type is one of Arrow's types of strings and bytes."""
    types = pa.types
    return any(
        test(type)
        for test in (
            types.is_string, types.is_large_string, types.is_string_view, types.is_binary,
            types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary,
        )
    )  # fmt: skip


def cell_bytes(column: pa.Array) -> NDArray[np.int64]:
    """The number of bytes of each cell: of a text, or of the JSON of a list at least; else 0."""
    type = column.type
    if isinstance(column, pa.DictionaryArray):
        sizes = cell_bytes(column.dictionary)
        indices = _numbers(column.indices)
        return sizes[indices] if len(sizes) else np.zeros(len(column), np.int64)
    if isinstance(column, pa.ExtensionArray):
        return cell_bytes(column.storage)
    if pa.types.is_struct(type):
        return sum(map(_value_bytes, column.flatten()), np.zeros(len(column), np.int64))
    if pa.types.is_map(type):
        entries = pa.struct([("key", type.key_type), ("value", type.item_type)])
        return cell_bytes(column.cast(pa.list_(entries)))
    if pa.types.is_nested(type):
        if pa.types.is_primitive(type.value_type):
            return _numbers(compute.list_value_length(column)) * _JSON_BYTES
        rows = _numbers(compute.list_parent_indices(column))
        sizes = _value_bytes(compute.list_flatten(column))
        return np.bincount(rows, sizes, len(column)).astype(np.int64)
    if not is_text(type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_string_view(type) or pa.types.is_binary_view(type):
        column = column.cast(pa.large_binary())
    return _numbers(compute.binary_length(column))


def _value_bytes(column: pa.Array) -> NDArray[np.int64]:
    return cell_bytes(column) + _JSON_BYTES


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    """Numbers with 0 for null; Arrow's own methods import pandas, which takes a quarter second."""
    return pl.Series(column).fill_null(0).cast(pl.Int64).to_numpy()


def check_sizes(
    file: IO[bytes], metadata: parquet.FileMetaData, names: Sequence[str], max_bytes: int
) -> None:
    """Checks, usually by a file's own description only, that no row can fill the memory.

    Args:
        file: the file.
        metadata: its description.
        names: the columns to read.
        max_bytes: the maximum bytes of a cell.

    Raises:
        ValueError: the texts of a row group, or its lists, may need too much memory.
    """
    columns = metadata.schema.to_arrow_schema().names
    for leaf in range(metadata.num_columns):
        schema = metadata.schema.column(leaf)
        # A name may contain dots, as the path of a part of a column does.
        prefixes = (name for name in columns if f"{schema.path}.".startswith(f"{name}."))
        name = max(prefixes, key=len, default="")
        for group in range(metadata.num_row_groups if name in names else 0):
            chunk, rows = metadata.row_group(group).column(leaf), metadata.row_group(group).num_rows
            size = chunk.total_uncompressed_size
            if not schema.max_repetition_level:
                if size > max(MAX_LIST_BYTES, rows * max_bytes):
                    raise ValueError(
                        f"row group {group + 1} (rows: {rows:,}) has {size:,} bytes in the column "
                        f"{name!r}; expected at most {max_bytes:,} bytes in a row. Shorten the "
                        "texts"
                    )
            # Each row has one value at least, which may be null.
            elif (values := chunk.num_values - rows + 1) * _VALUE_BYTES > MAX_LIST_BYTES or (
                schema.physical_type.endswith("BYTE_ARRAY")
                and values * size > MAX_LIST_BYTES
                and _list_bytes(file, metadata, group, leaf, values) > MAX_LIST_BYTES
            ):
                raise ValueError(
                    f"row group {group + 1} may have lists of up to {values:,} values in the "
                    f"column {name!r}, which need more than {MAX_LIST_BYTES:,} bytes of memory. "
                    "Remove the column, shorten its lists, or write smaller row groups"
                )


def _list_bytes(
    file: IO[bytes], metadata: parquet.FileMetaData, group: int, leaf: int, values: int
) -> int:
    """The most bytes of `LIST_ROWS` consecutive lists of texts in a row group, or an upper limit.

    Args:
        file: the file.
        metadata: its description.
        group: index of the row group.
        leaf: index of the column of texts.
        values: the maximum number of values in a row.
    """
    chunk, schema = metadata.row_group(group).column(leaf), metadata.schema.column(leaf)
    size = chunk.total_uncompressed_size
    if schema.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return values * schema.length
    longest = size  # of a text; one may repeat the beginning of the text before it
    if {*chunk.encodings} <= INDEXABLE:
        columns = [chunk.path_in_schema]
        reader = parquet.ParquetFile(file, metadata=metadata, read_dictionary=columns)
        # Arrow raises if a batch needs two dictionaries, or if this type cannot be read as indices.
        with suppress(pa.ArrowNotImplementedError):
            for rows in reader.iter_batches(LIST_ROWS, row_groups=[group], columns=columns):
                # Arrow reads the dictionary with the first text.
                if len(texts := _dictionary_bytes(rows.column(0))):
                    longest = int(texts.max())
                    break
            if values * longest + size > MAX_LIST_BYTES:
                lists = reader.read_row_group(group, columns=columns).column(0)
                sizes = np.concatenate([*map(cell_bytes, lists.chunks), np.zeros(LIST_ROWS)])
                sums = np.cumsum(sizes)
                return int((sums - np.concatenate([np.zeros(LIST_ROWS), sums[:-LIST_ROWS]])).max())
    return values * longest + size


def _dictionary_bytes(column: pa.Array) -> NDArray[np.int64]:
    """The bytes of the distinct texts of lists; empty if no text was read yet."""
    while not isinstance(column, pa.DictionaryArray):
        if pa.types.is_struct(column.type):
            column = column.field(0)
        elif pa.types.is_map(column.type):
            column = column.keys
        else:
            column = column.values
    return cell_bytes(column.dictionary)
