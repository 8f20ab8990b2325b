"""The rankings of a query side by side on the terminal, words of the query in bold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dssm_tf.retrieval.index import SYSTEMS, Hit, Ranking
from dssm_tf.tables.cells import readable
from dssm_tf.text.rules import FOLDED


def show(console: Console, query: str, rankings: Mapping[str, Ranking]) -> None:
    """Prints the rankings of one query side by side, words of the query in bold."""
    console.print(Text(f"\nQuery: {_printable(query)}", style="bold"), soft_wrap=True)
    hybrid = rankings["hybrid"]
    if not hybrid.hits:
        notes = dict.fromkeys(one.note for one in rankings.values())
        console.print(Text(f"Nothing found: {'; '.join(notes)}."), soft_wrap=True)
        return
    if hybrid.note:
        console.print(Text(f"{hybrid.note} The best of what there is:"), soft_wrap=True)
    words = set(FOLDED.words(query))
    headers = (
        f"{SYSTEMS[name]}\n{f'{one.milliseconds:.1f} ms' if one.hits else one.note}"
        for name, one in rankings.items()
    )
    table = Table("", *headers, box=box.SIMPLE_HEAD, expand=True)
    for rank, hits in enumerate(zip_longest(*(one.hits for one in rankings.values())), 1):
        table.add_row(str(rank), *(_cell(hit, words) if hit else "" for hit in hits))
    console.print(table)


def _cell(hit: Hit, words: set[str]) -> Text:
    """The title over the parts of its score and its doc id."""
    cell = Text(overflow="fold")
    for word in _printable(hit.title).split():
        cell.append(f"{word} ", "bold" if words.intersection(FOLDED.words(word)) else "")
    return cell.append(f"\n{', '.join(hit.parts())}  {_printable(hit.doc_id)}", "dim")


def _printable(text: str) -> str:
    """The text without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in readable(text))
