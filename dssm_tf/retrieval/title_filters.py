"""Filters of a search by the id of a title, a stored column, or a field of the titles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.numbers import read_number
from dssm_tf.retrieval.title_columns import EXACT_LIMIT, is_numeric, numbers_of, stored_columns
from dssm_tf.runtime.boosts import plain_number
from dssm_tf.text.fields import split_fields
from dssm_tf.text.rules import Key, TextRules

Booleans = NDArray[np.bool_]
Filters = Mapping[str, Sequence[str | float] | Mapping[str, float]]
"""For each field, either the accepted values or limits of its number, such as
`{"brand": ["Sony", "LG"], "price": {"lte": 50}}`.

A title must have one of the accepted values, and a number within all limits. The names of limits
are those of `COMPARISONS`.
"""

ID = "doc_id"
COMPARISONS = {"lt": lt, "lte": le, "gt": gt, "gte": ge}
"""The comparisons of limits by their names, which are those of OpenSearch."""
_NAMES_OF_SIGNS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}

_NAMES_KEY = b"title_fields"  # in the metadata of the table
_CACHED_MASKS = 64

_Condition = tuple[str, tuple[Any, ...], bool]
"""The name of a field, its values or pairs of limits, and whether they are limits."""


def parse_filters(texts: Iterable[str]) -> Filters:
    """Parses filters such as `price<=50` and `brand=Sony`.

    A title needs one of several values of a field, and a number within all limits of a field.

    Raises:
        UserError: a filter has another form.

    >>> parse_filters(["price<=50", "price>10", "brand=Sony", "brand=LG"])
    {'price': {'lte': 50.0, 'gt': 10.0}, 'brand': ['Sony', 'LG']}
    """
    filters: dict[str, Any] = {}
    for text in texts:
        parsed = re.fullmatch(r"([^<>=]+)(<=|>=|<|>|=)(.*)", text, re.DOTALL)
        if parsed is None:
            raise UserError(
                f"--filter {text!r:.100}: expected a comparison such as 'price<=50' or brand=Sony."
            )
        name, sign, value = parsed[1].strip(), parsed[2], parsed[3].strip()
        accepted: Any = filters.setdefault(name, [] if sign == "=" else {})
        if isinstance(accepted, list) != (sign == "="):
            raise UserError(f"--filter {text!r:.100}: {name} has both values and limits.")
        if isinstance(accepted, list):
            accepted.append(value)
        elif accepted.setdefault(_NAMES_OF_SIGNS[sign], _number(name, value)) != float(value):
            raise UserError(f"--filter {text!r:.100}: {name} has two limits of this kind.")
    return filters


def _number(name: str, value: object) -> float:
    """A finite number.

    Raises:
        UserError: it is not one.
    """
    try:
        number = read_number(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not np.isfinite(number):
        raise UserError(f"filters: {name!r:.100} is {value!r:.60}; expected a number.")
    return number


class _Column(NamedTuple):
    """The values of a field, with a code for each distinct text.

    Attributes:
        codes: the code of each entry, `(entries,)`.
        codes_of_key: the codes of the texts that are equal when normalized, by their key.
    """

    codes: NDArray[np.int32]
    codes_of_key: Mapping[Key, Sequence[int]]


class TitleFilters:
    """Finds the entries of an index that a filter allows. Several threads may use it.

    Args:
        table: Arrow table with `doc_id`, `title` and stored columns, see `with_field_names`.
        rules: decide which texts are equal.

    Attributes:
        table: the argument `table`.
        fields: the names of stored columns and of the fields of titles.
    """

    def __init__(self, table: Any, rules: TextRules) -> None:
        self.table, self._rules = table, rules
        self._stored = stored_columns(table)
        self._title_fields = field_names(table)
        others = (name for name in self._title_fields if name not in self._stored)
        self.fields = (*self._stored, *others)
        self._column = lru_cache(None)(self._read_column)
        self._mask = lru_cache(_CACHED_MASKS)(self._compute_mask)

    def mask(self, filters: Filters) -> Booleans:
        """Whether each entry is allowed, `(entries,)`, read-only.

        Args:
            filters: see `Filters`. Ids are compared exactly, texts as the model reads them: upper
                case, accents and punctuation do not matter. A title without a number is outside
                of all limits.

        Raises:
            UserError: there is no such field, or limits or a value do not fit its type.
        """
        for name in filters:
            if name not in (ID, *self.fields):
                raise UserError(
                    f"filters: {name!r:.100} is not a field of this index; expected one of "
                    f"{', '.join((ID, *self.fields))}."
                )
        return self._mask(tuple(sorted(_condition(*item) for item in filters.items())))

    def _compute_mask(self, conditions: tuple[_Condition, ...]) -> Booleans:
        mask = np.ones(len(self.table), np.bool_)
        for name, values, are_limits in conditions:
            if are_limits:
                if name not in self._stored:
                    raise UserError(
                        f"filters: {name!r:.100} is not a stored column with numbers, so it has no "
                        "limits; name such columns when you build the index: dssm index --store."
                    )
                numbers = numbers_of(self.table, name, "filters")
                for limit, value in values:
                    mask &= COMPARISONS[limit](numbers, _number(name, value))
            elif name == ID:
                from pyarrow import array, compute, string

                ids = array([_text(name, value) for value in values], string())
                mask &= compute.is_in(self.table["doc_id"], value_set=ids).to_numpy()
            elif name in self._stored and is_numeric(self.table, name):
                numbers = numbers_of(self.table, name, "filters")
                mask &= np.isin(numbers, [_number(name, value) for value in values])
            else:
                column = self._column(name)
                keys = {self._rules.key(_text(name, value)) for value in values}
                codes = [code for key in keys for code in column.codes_of_key.get(key, ())]
                mask &= np.isin(column.codes, codes)
        mask.setflags(write=False)
        return mask

    def _read_column(self, name: str) -> _Column:
        code_of: dict[str, int] = {}
        codes = np.empty(len(self.table), np.int32)
        is_stored = name in self._stored
        field = 0 if is_stored else self._title_fields.index(name)
        row = 0
        for chunk in self.table[name if is_stored else "title"].chunks:
            for text in chunk.to_pylist():
                cells = [text] if is_stored else split_fields(text, len(self._title_fields))
                value = cells[field] if field < len(cells) else ""
                codes[row] = code_of.setdefault(value, len(code_of))
                row += 1
        codes_of_key: dict[Key, list[int]] = {}
        for value, code in code_of.items():
            codes_of_key.setdefault(self._rules.key(value), []).append(code)
        return _Column(codes, codes_of_key)


def _condition(name: str, values: Sequence[str | float] | Mapping[str, float]) -> _Condition:
    """A filter as a key of the cache.

    Raises:
        UserError: a limit has another name.
    """
    if not isinstance(values, Mapping):
        return name, tuple(values), False
    for limit in values:
        if limit not in COMPARISONS:
            raise UserError(
                f"filters: {name!r:.100} has {limit!r:.60}; expected {', '.join(COMPARISONS)}."
            )
    return name, tuple(sorted(values.items())), True


def _text(name: str, value: str | float) -> str:
    """A value of a request as text; 5.0 is `5`.

    Raises:
        UserError: it is so large that a double loses digits.
    """
    if isinstance(value, (str, int)):
        return str(value)
    if abs(value) >= EXACT_LIMIT:
        raise UserError(
            f"filters: {name!r:.100} has the value {value!r:.60}; give ids of 16 or more digits as "
            "text, because large numbers lose digits."
        )
    return plain_number(value)


def with_field_names(table: Any, names: Sequence[str]) -> Any:
    """The table with the names of the fields of its titles, which `field_names` reads."""
    metadata = {**(table.schema.metadata or {}), _NAMES_KEY: ",".join(names).encode()}
    return table.replace_schema_metadata(metadata)


def field_names(table: Any) -> tuple[str, ...]:
    """The names of the fields of the titles; `title` if an index has none."""
    names = (table.schema.metadata or {}).get(_NAMES_KEY, b"title")
    return tuple(names.decode("utf-8", "replace").split(","))
