"""Filters of a search by the id of a title or by one of its fields, such as its brand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.text.fields import split_fields
from dssm_tf.text.rules import Key, Rules

Booleans = NDArray[np.bool_]
Filters = Mapping[str, Sequence[str]]
"""The accepted values by the name of a field, or by `ID`; a title needs one of each."""

ID = "doc_id"

_NAMES = b"title_fields"  # in the metadata of the table
_CACHED_MASKS = 64


class _Column(NamedTuple):
    """The values of a field: the code of each entry, and the codes of equal texts."""

    codes: NDArray[np.int32]
    codes_of_key: Mapping[Key, Sequence[int]]


class TitleFilters:
    """Finds the entries of an index that a filter allows. Several threads may use it.

    Args:
        table: Arrow table with `doc_id` and `title`, see `with_field_names`.
        rules: rules that say which texts are equal.
    """

    def __init__(self, table: Any, rules: Rules) -> None:
        self._table, self._rules = table, rules
        self.fields = field_names(table)
        self._column = lru_cache(None)(self._read_column)
        self._mask = lru_cache(_CACHED_MASKS)(self._compute_mask)

    def mask(self, filters: Filters) -> Booleans:
        """Whether each entry is allowed, `(entries,)`, read-only.

        Args:
            filters: the accepted values. Ids are compared exactly, fields as the model reads texts:
                upper case, accents and punctuation do not matter.

        Raises:
            UserError: the titles have no such field.
        """
        for name in filters:
            if name not in (ID, *self.fields):
                raise UserError(
                    f"filters: {name!r:.100} is not a field of this index; expected one of "
                    f"{', '.join((ID, *self.fields))}."
                )
        return self._mask(tuple(sorted((name, tuple(filters[name])) for name in filters)))

    def _compute_mask(self, filters: tuple[tuple[str, tuple[str, ...]], ...]) -> Booleans:
        mask = np.ones(len(self._table), np.bool_)
        for name, values in filters:
            if name == ID:
                from pyarrow import array, compute, string

                ids = array(values, string())
                mask &= compute.is_in(self._table["doc_id"], value_set=ids).to_numpy()
                continue
            column = self._column(self.fields.index(name))
            keys = {self._rules.key(value) for value in values}
            codes = [code for key in keys for code in column.codes_of_key.get(key, ())]
            mask &= np.isin(column.codes, codes)
        mask.setflags(write=False)
        return mask

    def _read_column(self, field: int) -> _Column:
        code_of: dict[str, int] = {}
        codes = np.empty(len(self._table), np.int32)
        row = 0
        for chunk in self._table["title"].chunks:
            for title in chunk.to_pylist():
                cells = split_fields(title, len(self.fields))
                value = cells[field] if field < len(cells) else ""
                codes[row] = code_of.setdefault(value, len(code_of))
                row += 1
        codes_of_key: dict[Key, list[int]] = {}
        for value, code in code_of.items():
            codes_of_key.setdefault(self._rules.key(value), []).append(code)
        return _Column(codes, codes_of_key)


def with_field_names(table: Any, names: Sequence[str]) -> Any:
    """The table with the names of the fields of its titles, which `field_names` reads."""
    metadata = {**(table.schema.metadata or {}), _NAMES: ",".join(names).encode()}
    return table.replace_schema_metadata(metadata)


def field_names(table: Any) -> tuple[str, ...]:
    """The names of the fields of the titles; `title` if an index has none."""
    names = (table.schema.metadata or {}).get(_NAMES, b"title")
    return tuple(names.decode("utf-8", "replace").split(","))
