"""Several columns of a table as its one column `title`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dssm_tf.tables.cells import BadRow, identifier
from dssm_tf.text.fields import SEPARATOR, join_fields, split_fields

TITLE = "title"


def spread(columns: Sequence[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Columns with those that a title is made of in place of `title`.

    >>> spread(("query", "title", "clicks"), ("name", "brand"))
    ('query', 'name', 'brand', 'clicks')
    """
    return tuple(one for name in columns for one in (fields if name == TITLE else (name,)))


def joined(cells: Sequence[Any], fields: Sequence[str]) -> str:
    """The fields of a title as one text.

    Raises:
        BadRow: a cell is neither text nor a whole number, or holds the separator.
    """
    return join_fields([_text(cell, name) for cell, name in zip(cells, fields, strict=True)])


def apart(rows: Iterable[Iterable[str]], place: int, fields: int) -> Iterator[list[str]]:
    """Rows whose title is a cell a field again.

    Args:
        rows: in which it is one cell.
        place: of the title.
        fields: that it has; cells of those that it lacks are empty.

    >>> list(apart([("fox", "Halo␟Sony", "2"), ("fox", "Halo", "1")], 1, 2))
    [['fox', 'Halo', 'Sony', '2'], ['fox', 'Halo', '', '1']]
    """
    for row in rows:
        cells = list(row)
        found = split_fields(cells[place], fields)
        cells[place : place + 1] = found + [""] * (fields - len(found))
        yield cells


def without_separator(text: str, name: str) -> str:
    """A text as it is.

    Raises:
        BadRow: it holds what divides the fields of a title.
    """
    if SEPARATOR in text:
        raise BadRow(
            f"{SEPARATOR} in {name}",
            f"the {name} {text!r:.40} holds {SEPARATOR} (U+241F), which divides the fields of a "
            "title; take it out",
        )
    return text


def _text(cell: object, name: str) -> str:
    """A field without white space at its ends; an empty cell is an empty field."""
    return "" if cell is None else without_separator(identifier(cell, name).strip(), name)
