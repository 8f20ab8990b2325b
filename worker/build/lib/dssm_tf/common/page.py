"""One self-contained HTML page: no network, light and dark, phone and desk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

Cell = str | tuple[str, float | str | None]
"""HTML, or HTML and what it is sorted by."""

# Whatever a text of the data might become, it loads nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def page(title: str, body: str, scripts: Sequence[str] = (), policy: str = POLICY) -> str:
    """A whole HTML document.

    Args:
        title: plain text.
        body: HTML, already escaped.
        scripts: JavaScript, run in turn when the body is there.
        policy: what the page may load and run.
    """
    style = (files("dssm_tf.common") / "style.css").read_text("utf-8")
    ends = "".join(f"\n<script>\n{script}</script>" for script in scripts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>{ends}\n</body>\n</html>\n"
    )


def contents(body: str) -> str:
    """The body under links to its headings of the second order, each of which gets an id.

    >>> contents("<h2>One</h2>text")
    '<nav><a href="#part1">One</a></nav><h2 id="part1">One</h2>text'
    """
    heads: list[str] = []

    def named(found: re.Match[str]) -> str:
        heads.append(found[1])
        return f'<h2 id="part{len(heads)}">{found[1]}</h2>'

    body = re.sub("<h2>(.*?)</h2>", named, body)
    links = "".join(f'<a href="#part{n}">{head}</a>' for n, head in enumerate(heads, start=1))
    return f"<nav>{links}</nav>{body}"


def table(
    heads: Sequence[Cell],
    rows: Sequence[Sequence[Cell]],
    *,
    text: int = 1,
    caption: str = "",
    sortable: bool = False,
) -> str:
    """A table that scrolls sideways where it is too wide.

    Args:
        heads: of the columns; one is sorted first as it says, `ascending` or `descending`.
        rows: the first cell of a row is its head; a row that is too short is that of something
            that failed, its last cell says why.
        text: how many columns from the left hold words, not numbers.
        caption: HTML; none if empty.
        sortable: whether a script may offer to sort it.
    """

    def cell(content: Cell, place: int, head: bool, columns: int = 1) -> str:
        html, value = content if isinstance(content, tuple) else (content, "")
        tag = "th" if head or place == 0 else "td"
        scope = ' scope="col"' if head else ' scope="row"' if place == 0 else ""
        kind = ' class="text"' if place < text or columns > 1 else ""
        span = f' colspan="{columns}"' if columns > 1 else ""
        data = ""
        if isinstance(content, tuple):
            known = escape(value or "") if isinstance(value, str | None) else f"{value:.8g}"
            data = f' data-{"first" if head else "value"}="{known}"'
        return f"<{tag}{scope}{kind}{span}{data}>{html}</{tag}>"

    def line(row: Sequence[Cell]) -> str:
        missing = len(heads) - len(row)
        cells = [cell(one, place, head=False) for place, one in enumerate(row)]
        if not missing:
            return f"<tr>{''.join(cells)}</tr>"
        last = cell(row[-1], len(row) - 1, head=False, columns=missing + 1)
        return f'<tr class="failed">{"".join(cells[:-1])}{last}</tr>'

    top = "".join(cell(one, place, head=True) for place, one in enumerate(heads))
    kind = ' class="sortable"' if sortable else ""
    named = f"<caption><span>{caption}</span></caption>" if caption else ""
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table, scrolls sideways">'
        f"<table{kind}>{named}\n<thead><tr>{top}</tr></thead>\n<tbody>\n"
        + "\n".join(map(line, rows))
        + "\n</tbody></table></div>"
    )
