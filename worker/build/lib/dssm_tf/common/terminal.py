"""Tables and notes on a terminal, of any width: no word is broken."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WHOLE = 10_000  # columns, which no table needs


def print_table(
    console: Console,
    heads: Sequence[str | Text],
    rows: Sequence[Sequence[str | Text]],
    styles: Sequence[str] = (),
) -> None:
    """Prints a table; columns for which a terminal has no room stand in further ones below it.

    Args:
        console: where to print.
        heads: of the columns, as markup; the first column stands in each table.
        rows: cells as markup. A row that is too short is that of something that failed: its last
            cell is the first after its head in each table.
        styles: of the rows; none if empty.
    """
    room = console.width if console.is_terminal else _WHOLE
    start = 1
    while start < len(heads):
        end = start + 1
        part = _part(heads, rows, styles, start, end)
        while end < len(heads):
            wider = _part(heads, rows, styles, start, end + 1)
            if _width(console, wider) > room:
                break
            part, end = wider, end + 1
        part.width = _width(console, part)
        console.print(part, crop=False, no_wrap=True, overflow="ignore")
        start = end


def note(console: Console, text: str, style: str = "") -> None:
    """Prints a sentence, on a terminal broken between words, elsewhere in one line."""
    whole = not console.is_terminal
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=whole)


def _part(
    heads: Sequence[str | Text],
    rows: Sequence[Sequence[str | Text]],
    styles: Sequence[str],
    start: int,
    end: int,
) -> Table:
    """The first column, and those from `start` to before `end`."""
    table = Table(header_style="bold", padding=(0, 1, 0, 0), box=SIMPLE_HEAD)
    table.add_column(heads[0], no_wrap=True)
    for head in heads[start:end]:
        table.add_column(head, justify="right", no_wrap=True)
    for place, row in enumerate(rows):
        cells = row[start:end] if len(row) == len(heads) else row[1:]
        table.add_row(row[0], *cells, style=styles[place] if styles else None)
    return table


def _width(console: Console, table: Table) -> int:
    """Columns it needs."""
    return console.measure(table, options=console.options.update(max_width=_WHOLE)).maximum
