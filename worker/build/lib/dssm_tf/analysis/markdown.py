"""Markdown that is readable as it is, and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")


def plain(text: str) -> str:
    """A text of the data, in which nothing is formatting."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def marked(words: Sequence[str], chosen: Iterable[object]) -> str:
    """A text with some of its words, or the words at some places, in bold."""
    bold = set(chosen)
    return " ".join(
        f"**{plain(word)}**" if word in bold or place in bold else plain(word)
        for place, word in enumerate(words)
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1) -> str:
    """A table with aligned columns, of which the first so many hold words and not numbers.

    >>> print(table(["word", "adds"], [["red", "+0.5"]]))
    | word | adds |
    |:-----|-----:|
    | red  | +0.5 |
    """
    lines = [list(heads), *map(list, rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if place < text else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = "|".join(
        f":{'-' * (width + 1)}" if place < text else f"{'-' * (width + 1)}:"
        for place, width in enumerate(widths)
    )
    return "\n".join([line(lines[0]), f"|{rule}|", *map(line, lines[1:])])


def html(text: str) -> str:
    """Markdown as HTML, into which no HTML of the text gets; tables scroll sideways."""
    made: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    made = made.replace("<table>", '<div class="scroll" tabindex="0"><table>')
    return made.replace("</table>", "</table></div>")
