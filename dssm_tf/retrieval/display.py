"""The rankings of a query side by side on the terminal, words of the query in bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dssm_tf.retrieval.index import SYSTEMS, Found, Hit
from dssm_tf.tables.cells import readable
from dssm_tf.text.rules import FOLDED

_BESIDE = 72  # columns of a terminal that hold three rankings without breaking words


def show(console: Console, query: str, found: Mapping[str, Found]) -> None:
    """Prints the rankings of one query side by side, words of the query in bold."""
    console.print()
    console.print(Text(f"Query: {_printable(query)}", style="bold"), soft_wrap=True)
    if found["hybrid"].hits:
        beside = console.width >= _BESIDE
        for systems in [list(SYSTEMS)] if beside else [[one] for one in SYSTEMS]:
            console.print(_table(query, found, systems))
    else:
        notes = dict.fromkeys(one.note for one in found.values() if one.note)
        console.print(Text(f"Nothing found: {'; '.join(notes)}."), soft_wrap=True)


def _table(query: str, found: Mapping[str, Found], systems: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1))
    table.add_column("", justify="right", style="dim", no_wrap=True)
    for system in systems:
        heading = f"{SYSTEMS[system]}  {found[system].milliseconds:.1f} ms"
        table.add_column(heading, ratio=1, overflow="fold")
    asked = set(FOLDED.words(query))
    for rank in range(max(len(found[system].hits) for system in systems)):
        cells: list[Text | str] = []
        for system in systems:
            hits, note = found[system].hits, found[system].note
            cells.append(_cell(hits[rank], asked) if rank < len(hits) else note * (rank == 0))
        table.add_row(str(rank + 1), *cells)
    return table


def _cell(hit: Hit, asked: set[str]) -> Text:
    """The title over its doc id and score."""
    cell = Text(overflow="fold")
    for word in _printable(hit.title).split():
        cell.append(f"{word} ", "bold" if asked.intersection(FOLDED.words(word)) else "")
    return cell.append(f"\n{_printable(hit.doc_id)}  {hit.score:.3f}", "dim")


def _printable(text: str) -> str:
    """The text without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in readable(text))
