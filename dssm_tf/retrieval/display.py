"""The rankings of a query side by side on the terminal, words of the query in bold."""

from __future__ import annotations

from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dssm_tf.retrieval.index import SYSTEMS, Found, Hit
from dssm_tf.tables.cells import readable


def show(console: Console, query: str, found: Found) -> None:
    """Prints the rankings of one query side by side, words of the query in bold."""
    query = _printable(query)
    console.print(Text(f"\nQuery: {query}", style="bold"), soft_wrap=True)
    if found.note:
        console.print(found.note, soft_wrap=True)
    table = Table("", *SYSTEMS.values(), box=box.SIMPLE_HEAD, expand=True)
    for rank, hits in enumerate(zip_longest(*found.rankings.values()), 1):
        table.add_row(str(rank), *(_cell(hit, query.split()) if hit else "" for hit in hits))
    if table.rows:
        console.print(table)


def _cell(hit: Hit, words: list[str]) -> Text:
    """The title over the parts of its score and its doc id."""
    cell = Text(_printable(hit.title), overflow="fold")
    cell.highlight_words(words, "bold", case_sensitive=False)
    return cell.append(f"\n{hit.parts()}  {_printable(hit.doc_id)}", "dim")


def _printable(text: str) -> str:
    """The text without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in readable(text))
