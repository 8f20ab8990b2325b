"""The rankings of a query side by side on the terminal, words of the query in bold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

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
    console.print(Text(f"\nQuery: {_printable(query)}", style="bold"), soft_wrap=True)
    if not found["hybrid"].hits:
        notes = dict.fromkeys(one.note for one in found.values())
        console.print(Text(f"Nothing found: {'; '.join(notes)}."), soft_wrap=True)
        return
    if found["hybrid"].note:
        console.print(Text(f"{found['hybrid'].note} The best of what there is:"), soft_wrap=True)
    asked = set(FOLDED.words(query))
    for systems in [[*SYSTEMS]] if console.width >= _BESIDE else [[one] for one in SYSTEMS]:
        heads = (
            f"{found[one].milliseconds:.1f} ms" if found[one].hits else found[one].note
            for one in systems
        )
        names = (f"{SYSTEMS[one]}\n{head}" for one, head in zip(systems, heads, strict=True))
        table = Table("", *names, box=box.SIMPLE_HEAD, expand=True)
        for rank, hits in enumerate(zip_longest(*(found[one].hits for one in systems)), 1):
            table.add_row(str(rank), *(_cell(hit, asked) if hit else "" for hit in hits))
        console.print(table)


def _cell(hit: Hit, asked: set[str]) -> Text:
    """The title over the parts of its score and its doc id."""
    cell = Text(overflow="fold")
    for word in _printable(hit.title).split():
        cell.append(f"{word} ", "bold" if asked.intersection(FOLDED.words(word)) else "")
    return cell.append(f"\n{', '.join(hit.parts())}  {_printable(hit.doc_id)}", "dim")


def _printable(text: str) -> str:
    """The text without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in readable(text))
