"""Texts with ids, or without, out of files of any size: tables, or lines of `.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dssm_tf.tables.cells import identifier, text
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import TABLES, format_of, open_table

_COLUMNS = {"title": ("doc_id", "title"), "query": ("query_id", "query")}
"""Of an id and a text; a text that is alone may be called `text`."""


class Text(NamedTuple):
    """A text and its id, None where the input has none."""

    text: str
    id: str | None = None


def read_texts(
    path: Path | str, side: str = "title", layout: Layout | None = None
) -> Iterator[Text]:
    """Reads texts; columns are looked up before the first of them is there.

    Args:
        path: a file of any format of `reader`.
        side: `title` or `query`: which columns are looked for.
        layout: what its name does not say.

    Raises:
        UserError: while reading, naming file and line: the file cannot be read, lacks a column or
            has a malformed row.
    """
    with open_table(path, format_of(path, ("txt", *TABLES)), layout) as table:
        id_, text_ = _COLUMNS[side]
        if table.names == ("text",):
            text_ = "text"
        ids = [id_] if id_ in table.names else []
        for _, cells in table.rows({text_: text, **dict.fromkeys(ids, identifier)}):
            yield Text(*cells)
