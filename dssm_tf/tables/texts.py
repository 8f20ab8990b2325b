"""Texts with ids, or without, out of files of any size: tables, or lines of `.txt` and `-`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import identifier, readable, text
from dssm_tf.tables.layout import TITLE, Layout, fold
from dssm_tf.tables.reader import TABLES, format_of, open_table

_TEXT_COLUMNS = {
    "title": ("title", "text"),
    "query": ("query", "text"),
    "passage": ("text", "title"),
}
_ID_COLUMNS = {"title": ("doc_id", "id"), "query": ("query_id", "id"), "passage": ("id",)}


class Text(NamedTuple):
    """A text and its id, None where the input has none."""

    text: str
    id: str | None = None


class TextInput(NamedTuple):
    """What `open_texts` found.

    Args:
        rows: the texts, to be read once.
        has_ids: whether every text has an id.
        done: the share of the input that was read, from 0 to 1; None if unknown.
    """

    rows: Iterator[Text]
    has_ids: bool
    done: Callable[[], float | None]


@contextmanager
def open_texts(
    path: Path | str,
    side: str = "title",
    column: str | None = None,
    id_column: str | None = None,
    layout: Layout | None = None,
) -> Iterator[TextInput]:
    """Opens texts; columns are looked up before the first text is read.

    Args:
        path: a file of any format of `reader`, `-` for standard input.
        side: `title`, `query` or `passage`: which columns are looked for when none is named.
        column: the column that holds the text.
        id_column: the column that holds the id.
        layout: what its name does not say; columns that a title is made of replace `column`.

    Raises:
        UserError: here or while reading, naming file and line: the file cannot
            be read, lacks a column or has a malformed row.
    """
    standard_input = str(path) == "-"
    format = "txt" if standard_input else format_of(path, ("txt", *TABLES))
    if format == "txt" and (column or id_column):
        raise UserError(f"--column and --id-column name a column; {path} is read as a text a line.")
    raw = sys.stdin.buffer if standard_input else None
    layout = layout or Layout()
    with open_table("standard input" if raw else path, format, layout, raw) as table:
        names = table.names
        several = side == TITLE and layout.title_fields != (TITLE,)
        candidates = [TITLE] if several else [fold(column)] if column else _TEXT_COLUMNS[side]
        text_name = next((one for one in candidates if one in names or column or several), None)
        if not names:
            table.check_names(candidates[:1])  # says that the file is empty
        if text_name is None:
            raise UserError(
                f"{path} has the columns {', '.join(map(repr, names))}; expected "
                f"{' or '.join(map(repr, candidates))}. Name another with --column."
            )
        ids = [fold(id_column)] if id_column else [i for i in _ID_COLUMNS[side] if i in names][:1]
        columns = {text_name: _text, **dict.fromkeys(ids, _id)}
        rows = (Text(*cells) for _, cells in table.rows(columns))
        yield TextInput(rows, bool(ids), table.share_read)


# JSON can spell half a surrogate pair, which no UTF-8 file can hold.


def _text(cell: object, name: str) -> str:
    return readable(text(cell, name))


def _id(cell: object, name: str) -> str:
    return readable(identifier(cell, name))
