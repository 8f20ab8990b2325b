"""Texts with ids, or without, out of files of any size: tables, or lines of `.txt` and `-`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dssm_tf.tables.cells import identifier, text
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.reader import TABLES, format_of, open_table

_COLUMNS = {"title": ("doc_id", "title"), "query": ("query_id", "query")}
"""Of an id and a text; `id` and `text` do, too."""


class Text(NamedTuple):
    """A text and its id, None where the input has none."""

    text: str
    id: str | None = None


def read_texts(
    path: Path | str, side: str = "title", layout: Layout | None = None
) -> Iterator[Text]:
    """Reads texts; columns are looked up before the first of them is there.

    Args:
        path: a file of any format of `reader`, `-` for standard input.
        side: `title` or `query`: which columns are looked for.
        layout: what its name does not say.

    Raises:
        UserError: while reading, naming file and line: the file cannot be read, lacks a column or
            has a malformed row.
    """
    raw = sys.stdin.buffer if str(path) == "-" else None
    format = "txt" if raw else format_of(path, ("txt", *TABLES))
    with open_table("standard input" if raw else path, format, layout, raw) as table:
        id_, text_ = _COLUMNS[side]
        if {text_, *table.layout.title_fields}.isdisjoint(table.names) and "text" in table.names:
            text_ = "text"
        ids = [name for name in (id_, "id") if name in table.names][:1]
        for _, cells in table.rows({text_: text, **dict.fromkeys(ids, identifier)}):
            yield Text(*cells)
