"""Columns of the catalog that an index stores, such as price and stock, and boosts by them.

They are further columns of the table of titles: doubles if all cells are numbers, otherwise texts.
A cell with a leading zero, such as 007, and a whole number that a double cannot hold are texts,
because different ids could be equal as doubles. A missing number is null, a missing text is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.numbers import read_number
from dssm_tf.runtime.boosts import AppliedBoost, Boosts, plain_number

_TITLE_COLUMNS = ("doc_id", "title")
_CACHED_BOOSTS = 16
MAX_WEIGHT = 1e6
"""The largest absolute weight of a boost."""
EXACT_LIMIT = 2**53
"""Doubles hold all whole numbers of a smaller absolute value; larger ones lose digits."""
_LEADING_ZERO = r"^[+-]?0[0-9]"
_LONG_WHOLE_NUMBER = r"^[+-]?[0-9]{16,}(\.0*)?$"  # it may still be below EXACT_LIMIT


def with_columns(table: Any, columns: Mapping[str, Sequence[str]]) -> Any:
    """A table with further columns.

    Args:
        table: Arrow table with `doc_id` and `title`.
        columns: the cells by the name of the column, `(entries,)`; missing ones are empty.
    """
    import polars as pl
    import pyarrow

    for name, cells in columns.items():
        texts = pl.Series(cells, dtype=pl.String)
        numbers = texts.cast(pl.Float64, strict=False)
        is_id = texts.str.contains(_LEADING_ZERO) | (
            texts.str.contains(_LONG_WHOLE_NUMBER) & (numbers.abs() >= EXACT_LIMIT)
        )
        is_number = (numbers.is_finite() & ~is_id).fill_null(value=False)
        if ((texts == "") | is_number).all() and is_number.any():
            values = numbers.to_arrow()
        else:
            values = pyarrow.array(list(cells), pyarrow.string())
        table = table.append_column(name, values)
    return table


def stored_columns(table: Any) -> tuple[str, ...]:
    """The names of the stored columns."""
    return tuple(name for name in table.schema.names if name not in _TITLE_COLUMNS)


def is_numeric(table: Any, name: str) -> bool:
    """Whether a stored column has numbers."""
    import pyarrow

    return bool(table.schema.field(name).type == pyarrow.float64())


def numbers_of(table: Any, name: str, purpose: str) -> NDArray[np.float64]:
    """The numbers of a stored column, `(entries,)`; missing ones are NaN.

    Args:
        table: the table.
        name: the name of the column.
        purpose: for error messages, such as `boosts`.

    Raises:
        UserError: there is no such column, or it has texts.
    """
    names = stored_columns(table)
    if name not in names:
        numeric = [other for other in names if is_numeric(table, other)]
        expected = f"expected one of {', '.join(numeric)}" if numeric else "it stores no numbers"
        raise UserError(
            f"{purpose}: {name!r:.100} is not a stored column of this index; {expected}. Name "
            "columns when you build it: dssm index --store price,stock"
        )
    if not is_numeric(table, name):
        row, text = _first_text(table, name)
        raise UserError(
            f"{purpose}: the column {name!r:.100} has texts, such as {text!r:.60} of doc_id "
            f"{table['doc_id'][row].as_py()!r:.60}; expected numbers such as 49.90, without "
            "leading zeros, and below 2**53 if they are whole."
        )
    numbers: NDArray[np.float64] = table[name].to_numpy()
    return numbers


def describe_columns(table: Any) -> str:
    """Describes the columns that an index stores; empty without any.

    Returns:
        The end of a sentence, such as `; stored: price (numbers, 2 missing), brand (texts)`.
    """
    described = []
    for name in stored_columns(table):
        if is_numeric(table, name):
            missing = table[name].null_count
            described.append(f"{name} (numbers{f', {missing:,} missing' if missing else ''})")
        else:
            text = _first_text(table, name)[1]
            described.append(f"{name} (texts, such as {text!r:.40})")
    return f"; stored: {', '.join(described)}" if described else ""


def _first_text(table: Any, name: str) -> tuple[int, str]:
    """The row and the text of the first cell of a column that is no number.

    If all cells are numbers or empty, the first cell that is not empty.
    """
    first_nonempty = (0, "")
    row = 0
    for chunk in table[name].chunks:
        for text in chunk.to_pylist():
            if text:
                if not _is_number(text):
                    return row, text
                first_nonempty = first_nonempty if first_nonempty[1] else (row, text)
            row += 1
    return first_nonempty


def _is_number(text: str) -> bool:
    """Whether a cell is a number and no id, see the module's docstring."""
    try:
        number = read_number(text)
    except ValueError:
        return False
    is_long = re.search(_LONG_WHOLE_NUMBER, text) and abs(number) >= EXACT_LIMIT
    return isfinite(number) and not (is_long or re.search(_LEADING_ZERO, text))


class TitleBoosts:
    """Computes the numbers that boosts add to the scores of entries. Several threads may use it.

    Args:
        table: Arrow table with `doc_id`, `title` and the stored columns.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._numbers = lru_cache(None)(self._read_numbers)
        self._added = lru_cache(_CACHED_BOOSTS)(self._compute)

    def added(self, boosts: Boosts) -> NDArray[np.float32]:
        """The number that boosts add to the score of each entry, `(entries,)`, read-only.

        Args:
            boosts: the weight by the name of a stored column.

        Raises:
            UserError: a column is not stored, has texts or a negative number, or a weight is not
                finite or too large.
        """
        return self._added(tuple(boosts.items()))

    def of_entry(self, boosts: Boosts, entry: int) -> tuple[AppliedBoost, ...]:
        """The boosts of one entry of the corpus."""
        numbers = [(name, weight, self._numbers(name)[entry]) for name, weight in boosts.items()]
        return tuple(
            AppliedBoost(name, weight, None if np.isnan(number) else float(number))
            for name, weight, number in numbers
        )

    def _compute(self, boosts: tuple[tuple[str, float], ...]) -> NDArray[np.float32]:
        total = np.zeros(len(self._table))
        for name, weight in boosts:
            numbers = self._numbers(name)
            if not abs(weight) <= MAX_WEIGHT:
                raise UserError(
                    f"boosts: the weight of {name!r:.100} is {weight}; expected a number from "
                    f"{-MAX_WEIGHT:g} to {MAX_WEIGHT:g}."
                )
            total += weight * np.log1p(np.nan_to_num(numbers))
        added = total.astype(np.float32)
        added.setflags(write=False)
        return added

    def _read_numbers(self, name: str) -> NDArray[np.float64]:
        numbers = numbers_of(self._table, name, "boosts")
        if (negative := np.flatnonzero(numbers < 0)).size:
            row = int(negative[0])
            doc_id = self._table["doc_id"][row].as_py()
            raise UserError(
                f"boosts: the column {name!r:.100} has the negative number "
                f"{plain_number(numbers[row])} for doc_id {doc_id!r:.60}; expected at least 0."
            )
        return numbers
