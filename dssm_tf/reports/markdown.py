"""Every report is one Markdown text: readable as it is, and as one HTML page without network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from tabulate import tabulate

from dssm_tf.common.files import atomic_write
from dssm_tf.reports.page import document, source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT, PAGE = "report.md", "report.html"
"""The two forms of a report."""

_SPECIAL = re.compile(
    r"([\\`*\[\]<|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|!(?=\[)|^>|^#(?=#{0,5}(?:\s|$)))"
)
"""What formats a text where it stands: `#` only before a heading, `_` only outside words."""
_FIGURE = re.compile(r'<p><img src="([^"]*)\.svg" alt="([^"]*)" ?/?></p>')


def plain(text: str) -> str:
    r"""A text of the data, in which nothing is formatting.

    >>> print(plain("hd_clicks.tsv, #co con, 3 > 2 & 1"), plain("*not* bold"))
    hd_clicks.tsv, #co con, 3 > 2 & 1 \*not\* bold
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def marked(words: Sequence[str], chosen: Iterable[object]) -> str:
    """A text with some of its words, or the words at some places, in bold.

    >>> marked(["red", "hat", "hat"], ["red"]), marked(["red", "hat", "hat"], [2])
    ('**red** hat hat', 'red hat **hat**')
    """
    bold = set(chosen)
    return " ".join(
        f"**{plain(word)}**" if word in bold or place in bold else plain(word)
        for place, word in enumerate(words)
    )


def bullets(lines: Iterable[str]) -> str:
    """A list of plain sentences."""
    return "\n".join(f"- {plain(line)}" for line in lines)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1, width: int | None = None
) -> str:
    """A table with aligned columns, of which the first so many hold words and not numbers.

    Args:
        heads: of the columns, as Markdown.
        rows: of cells, as Markdown; what a row lacks is empty.
        text: columns from the left that hold words.
        width: of the terminal: columns it has no room for stand in further tables below, each
            with the first column again. None for one table.

    >>> print(table(["word", "adds"], [["red", "+0.5"]]))
    | word   |   adds |
    |:-------|-------:|
    | red    |   +0.5 |
    """
    rows = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
    columns = len(heads)
    whole = _first_columns(heads, rows, text, columns)
    if width is None:
        return whole
    left = whole
    while left.index("\n") > width and columns > 2:
        columns -= 1
        left = _first_columns(heads, rows, text, columns)
    if columns == len(heads):
        return whole
    rest = [[row[0], *row[columns:]] for row in rows]
    return f"{left}\n\n{table([heads[0], *heads[columns:]], rest, text, width)}"


def _first_columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], text: int, columns: int
) -> str:
    """The first columns of a table, see `table`."""
    result: str = tabulate(
        [row[:columns] for row in rows], heads[:columns], "pipe", disable_numparse=True,
        colalign=["left" if column < text else "right" for column in range(columns)],
    )  # fmt: skip
    return result


def html(text: str) -> str:
    """Markdown as HTML, into which no HTML of the text gets; tables scroll sideways."""
    made: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    made = re.sub(r" \(([\d.-]+)\)</td>", r"<small>\1</small></td>", made)  # intervals
    made = made.replace("<table>", '<div class="scroll" tabindex="0"><table>')
    return made.replace("</table>", "</table></div>")


def page(text: str, figures: Mapping[str, str] | None = None, insert: str = "") -> str:
    """A report as a whole HTML document; its script links to the sections.

    Args:
        text: Markdown; begins with the title. A paragraph `![caption](NAME.svg)` is a figure.
        figures: SVG by NAME.
        insert: HTML that stands before the second section.
    """
    body = _FIGURE.sub(
        lambda found: (
            f"<figure>{(figures or {})[found[1]]}<figcaption>{found[2]}</figcaption></figure>"
        ),
        html(text),
    )
    first, section, others = body.partition("<h2>")
    title = re.sub(r"\\(.)", r"\1", text.split("\n", 1)[0].removeprefix("# "))
    return document(title, f"{first}{insert}{section}{others}", [source("page.js")])


def write(
    directory: Path, text: str, figures: Mapping[str, Figure] | None = None, insert: str = ""
) -> None:
    """Writes `report.md`, its figures beside it, and `report.html`, which holds all of it.

    Args:
        directory: which exists.
        text: see `page`.
        figures: drawn by `common.figures`; those that the text does not name are files alone.
        insert: see `page`.
    """
    drawn: dict[str, Any] = {}
    if figures:
        from dssm_tf.reports.figures import save

        drawn = {name: save(figure, directory / name) for name, figure in figures.items()}
    for name, content in ((TEXT, text.rstrip() + "\n"), (PAGE, page(text, drawn, insert))):
        with atomic_write(directory / name) as file:
            file.write(content)
