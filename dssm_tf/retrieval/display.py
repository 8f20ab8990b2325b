"""The rankings of a query side by side on the terminal, words of the query in bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dssm_tf.retrieval.searcher import SYSTEMS, Found, Hit
from dssm_tf.tables.cells import readable
from dssm_tf.text.rules import FOLDED

_BESIDE = 72  # columns of a terminal that hold three rankings without breaking words
_NAMES = {"bm25": "BM25", "semantic": "semantic", "hybrid": "hybrid"}


def show(console: Console, query: str, found: Mapping[str, Found]) -> None:
    """Prints the rankings of one query side by side, words of the query in bold."""
    console.print()
    console.print(Text(f"Query: {_printable(query)}", style="bold"), soft_wrap=True)
    if any(found[system].hits for system in SYSTEMS):
        beside = console.width >= _BESIDE
        for systems in [SYSTEMS] if beside else [(one,) for one in SYSTEMS]:
            console.print(_table(query, found, systems))
    notes = {found[system].note: system for system in reversed(SYSTEMS)}
    notes.pop("", None)
    for note, system in reversed(notes.items()):
        # A reason they share is said once.
        shared = len(notes) == 1 and not found["hybrid"].hits
        start = "Nothing found" if shared else _NAMES[system]
        console.print(Text(f"{start}: {note}."), soft_wrap=True)


def _table(query: str, found: Mapping[str, Found], systems: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1))
    table.add_column("", justify="right", style="dim", no_wrap=True)
    for system in systems:
        heading = f"{_NAMES[system]}  {found[system].milliseconds:.1f} ms"
        table.add_column(heading, ratio=1, overflow="fold")
    asked = set(FOLDED.words(query))
    for rank in range(max(len(found[system].hits) for system in systems)):
        cells = [
            _cell(found[system].hits[rank], asked) if rank < len(found[system].hits) else ""
            for system in systems
        ]
        table.add_row(str(rank + 1), *cells)
    return table


def _cell(hit: Hit, asked: set[str]) -> Table:
    """The title over its doc id and score."""
    title = Text(overflow="fold")
    for word in _printable(hit.title).split():
        title.append(word, style="bold" if asked.intersection(FOLDED.words(word)) else "")
        title.append(" ")
    title.rstrip()
    below = Table.grid(expand=True, padding=(0, 1))
    below.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    below.add_column(no_wrap=True)
    below.add_row(Text(_printable(hit.doc_id), style="dim"), Text(f"{hit.score:.3f}", style="dim"))
    cell = Table.grid(expand=True)
    cell.add_row(title)
    cell.add_row(below)
    return cell


def _printable(text: str) -> str:
    """The text without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in readable(text))
