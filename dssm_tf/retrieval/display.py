"""The rankings of a query on the terminal, words of the query in bold."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from dssm_tf.retrieval.index import SYSTEMS, Found
from dssm_tf.tables.cells import one_line


def show(console: Console, query: str, found: Found) -> None:
    """Prints the rankings of one query, the hybrid first; words of the query are bold."""
    lines = [f"\nQuery: {_printable(query)}", *[found.note] * bool(found.note)]
    for system, hits in found.rankings.items():
        lines += [f"\n{SYSTEMS[system]}"] * bool(hits)
        for rank, hit in enumerate(hits, 1):
            lines.append(
                f"{rank:3} {_printable(hit.title)}  ({_printable(hit.doc_id)}: {hit.parts()})"
            )
    text = Text("\n".join(lines))
    text.highlight_words(_printable(query).split(), "bold", case_sensitive=False)
    console.print(text, soft_wrap=True)


def _printable(text: str) -> str:
    """The text without what would move the cursor or change colours."""
    return "".join(c if c.isprintable() else " " for c in one_line(text))
