"""JSON objects, one per line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl

from dssm_tf.common.errors import UserError
from dssm_tf.tables.batches import (
    LINE,
    Batch,
    Contents,
    decode_line,
    has_surrogates,
    too_long,
    wrong_kind,
)
from dssm_tf.tables.cells import BadRow, lost_clicks, one_line
from dssm_tf.tables.columns import Column
from dssm_tf.tables.layout import Layout, Reject, reject
from dssm_tf.tables.lines import LineBlock, Lines


def open_objects(lines: Lines, layout: Layout, where: str) -> Contents:
    """Opens a file of objects, one per line; the keys of the first are the names of the columns."""
    first: list[LineBlock] = []
    names: tuple[str, ...] = ()
    malformed = False
    while not names and not malformed and (line := lines.next_line()):
        number, data = line
        first.append(LineBlock(number, data, len(data) > layout.max_line_bytes + 1))
        try:
            text = decode_line(data, layout)
            if text.strip():
                names = tuple(_object(text)) or ("",)
        except BadRow:
            malformed = True

    def batches(columns: Sequence[Column]) -> Iterator[Batch]:
        for block in chain(first, lines):
            yield _object_batch(block, layout, columns, where)

    return Contents(
        tuple(map(layout.name, names)),
        names,
        batches,
        lambda: lines.count,
        lambda: lines.splittable,
        names_in_rows=True,
        malformed=malformed,
    )


def _object(text: str) -> dict[str, Any]:
    """Parses the object of a line; raises `BadRow` if it is not a JSON object."""
    try:
        value = json.loads(text, object_pairs_hook=_object_of_pairs)
    except (ValueError, RecursionError) as error:
        raise BadRow("not JSON", f"not JSON: {error}") from None
    if not isinstance(value, dict):
        detail = f"a {type(value).__name__}; expected a JSON object"
        raise BadRow("not a JSON object", detail)
    return value


class _ObjectWithRepeats(dict[str, Any]):
    """An object with repeated keys."""

    repeated_keys: frozenset[str]


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Builds the object of a list of keys and values."""
    values = dict(pairs)
    if len(values) < len(pairs):
        result = _ObjectWithRepeats(values)
        counts = Counter(key for key, _ in pairs)
        result.repeated_keys = frozenset(key for key in counts if counts[key] > 1)
        return result
    return values


def _object_batch(block: LineBlock, layout: Layout, columns: Sequence[Column], where: str) -> Batch:
    """Reads the objects of a block of lines; bad lines become rejects."""
    columns_by_name = {column.name: column for column in columns}
    numbers: list[int] = []
    cells: dict[str, list[str | None]] = {name: [] for name in columns_by_name}
    rejects: list[Reject] = []
    columns_by_key: dict[str, Column | None] = {}
    block_lines = block.data.removesuffix(b"\n").split(b"\n")
    for number, data in enumerate(block_lines, start=block.first):
        row: dict[str, str | None] = {}
        try:
            if block.too_long:
                raise too_long(layout)
            text = decode_line(data, layout)
            if not text.strip():
                continue
            value = _object(text)
            keys: dict[str, str] = {}
            repeated_keys = (
                value.repeated_keys if isinstance(value, _ObjectWithRepeats) else frozenset()
            )
            for key, cell in value.items():
                if key not in columns_by_key:
                    columns_by_key[key] = columns_by_name.get(layout.name(key))
                column = columns_by_key[key]
                if column is None:
                    continue
                if column.name in keys or key in repeated_keys:
                    other = keys.get(column.name, key)
                    raise UserError(
                        f"{where}:{number}: the keys {other!r} and {key!r} are the same column; "
                        "give each object one of them."
                    )
                keys[column.name] = key
                row[column.name] = _cell(cell, column, layout)
        except BadRow as bad:
            rejects.append(
                reject(number, bad, data, _clicks_of_object(data, row, columns_by_name, layout))
            )
            continue
        numbers.append(number)
        for name, values in cells.items():
            values.append(row.get(name))
    frame = pl.DataFrame(
        [
            *(pl.Series(name, values, dtype=pl.String) for name, values in cells.items()),
            pl.Series(LINE, numbers, dtype=pl.Int64),
        ]
    )
    return Batch(frame, rejects, lambda line: block_lines[line - block.first])


def _cell(value: Any, column: Column, layout: Layout) -> str | None:
    """A JSON value as a string; raises `BadRow` if the column does not accept its type."""
    if value is None:
        return None
    kind = dict if isinstance(value, dict) else type(value)  # `_ObjectWithRepeats` is a dict
    if kind not in column.kinds:
        raise wrong_kind(repr(value), column, layout)
    if isinstance(value, str):
        if value.isascii() or not has_surrogates(value):
            return value
        if not column.replace_surrogates:
            raise BadRow("bad UTF-8")
        return one_line(value)
    return json.dumps(value, ensure_ascii=True) if isinstance(value, (dict, list)) else str(value)


def _clicks_of_object(
    data: bytes,
    row: Mapping[str, str | None],
    columns_by_name: Mapping[str, Column],
    layout: Layout,
) -> int | None:
    """The clicks of a rejected line, which may not be JSON; None if they are unknown."""
    if "clicks" not in columns_by_name:
        return 1
    if "clicks" in row:
        return lost_clicks(row["clicks"])
    key = re.escape(layout.name_in_file("clicks").encode())
    match = re.search(rb'"\s*' + key + rb'\s*"\s*:\s*("[^"]*"|[^,}\s]*)', data, re.IGNORECASE)
    if match:
        cell = match[1].decode("utf-8", "replace").strip('"')
        return lost_clicks(None if cell == "null" else cell)
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return None
    return 1
