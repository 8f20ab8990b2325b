"""Markdown for reports, and its conversion to self-contained HTML pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from tabulate import tabulate

from dssm_tf.common.files import atomic_write
from dssm_tf.reports.page import document, read_source

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKDOWN_FILE, HTML_FILE = "report.md", "report.html"
"""The file names of a report."""

_SPECIAL = re.compile(
    r"([\\`*\[\]<|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|!(?=\[)|^>|^#(?=#{0,5}(?:\s|$)))"
)
"""Characters where Markdown interprets them: `_` only at the edge of a word, `&` only in an entity,
`!` only before `[`, `>` and `#` only at the start of the text, `#` only if it makes a heading."""
_FIGURE = re.compile(r'<p><img src="([^"]*)\.svg" alt="([^"]*)" ?/?></p>')


def plain(text: str) -> str:
    r"""Escapes a text from the data, so that none of it is read as Markdown.

    >>> print(plain("hd_clicks.tsv, #co con, 3 > 2 & 1"), plain("*not* bold"))
    hd_clicks.tsv, #co con, 3 > 2 & 1 \*not\* bold
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def with_bold(words: Sequence[str], chosen: Iterable[object]) -> str:
    """Joins words and prints some of them in bold.

    Args:
        words: the words of a text; they are escaped.
        chosen: the words to print in bold, or their positions.

    >>> with_bold(["red", "hat", "hat"], ["red"]), with_bold(["red", "hat", "hat"], [2])
    ('**red** hat hat', 'red hat **hat**')
    """
    bold = set(chosen)
    return " ".join(
        f"**{plain(word)}**" if word in bold or position in bold else plain(word)
        for position, word in enumerate(words)
    )


def bullets(lines: Iterable[str]) -> str:
    """A bullet list of sentences, which are escaped."""
    return "\n".join(f"- {plain(line)}" for line in lines)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    text_columns: int = 1,
    width: int | None = None,
) -> str:
    """Formats a table with aligned columns.

    Args:
        heads: headings of the columns, as Markdown.
        rows: cells as Markdown; missing cells at the end of a row are empty.
        text_columns: the number of columns of text, which come first and are left-aligned. The
            other columns are numbers and right-aligned.
        width: the width of the terminal in characters. A wider table is split into several
            tables, which all have the first column. None never splits.

    >>> print(table(["word", "adds"], [["red", "+0.5"]]))
    | word   |   adds |
    |:-------|-------:|
    | red    |   +0.5 |
    """
    rows = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
    columns = len(heads)
    full = _first_columns(heads, rows, text_columns, columns)
    if width is None:
        return full
    left = full
    while left.index("\n") > width and columns > 2:
        columns -= 1
        left = _first_columns(heads, rows, text_columns, columns)
    if columns == len(heads):
        return full
    rest = [[row[0], *row[columns:]] for row in rows]
    return f"{left}\n\n{table([heads[0], *heads[columns:]], rest, text_columns, width)}"


def _first_columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int, column_count: int
) -> str:
    """The first columns of a table, see `table`."""
    result: str = tabulate(
        [row[:column_count] for row in rows], heads[:column_count], "pipe", disable_numparse=True,
        colalign=["left" if column < text_columns else "right" for column in range(column_count)],
    )  # fmt: skip
    return result


def html(text: str) -> str:
    """Converts Markdown to HTML. HTML in the text is escaped; tables scroll horizontally."""
    result: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    # The interval after a mean, as in `.512 (.498-.526)`, is printed smaller.
    result = re.sub(r" \(([\d.-]+)\)</td>", r"<small>\1</small></td>", result)
    result = result.replace("<table>", '<div class="scroll" tabindex="0"><table>')
    return result.replace("</table>", "</table></div>")


def page(text: str, figures: Mapping[str, str] | None = None, insert: str = "") -> str:
    """Converts a report to an HTML document, with a table of contents added by its script.

    Args:
        text: Markdown that begins with the title. A paragraph `![caption](NAME.svg)` is a figure.
        figures: SVG elements by NAME.
        insert: HTML to insert before the first `##` heading.
    """
    body = _FIGURE.sub(
        lambda match: (
            f"<figure>{(figures or {})[match[1]]}<figcaption>{match[2]}</figcaption></figure>"
        ),
        html(text),
    )
    first, section, others = body.partition("<h2>")
    title = re.sub(r"\\(.)", r"\1", text.split("\n", 1)[0].removeprefix("# "))
    return document(title, f"{first}{insert}{section}{others}", [read_source("page.js")])


def write(
    directory: Path, text: str, figures: Mapping[str, Figure] | None = None, insert: str = ""
) -> None:
    """Writes `report.md`, the files of its figures, and the self-contained `report.html`.

    Args:
        directory: an existing directory.
        text: see `page`.
        figures: figures of `reports.figures` by name. All are written as files; those that the text
            names are also in the page.
        insert: see `page`.
    """
    svgs: dict[str, str] = {}
    if figures:
        from dssm_tf.reports.figures import save

        svgs = {name: save(figure, directory / name) for name, figure in figures.items()}
    for name, content in (
        (MARKDOWN_FILE, text.rstrip() + "\n"),
        (HTML_FILE, page(text, svgs, insert)),
    ):
        with atomic_write(directory / name) as file:
            file.write(content)
