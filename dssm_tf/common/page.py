"""One self-contained HTML page: no script, no network, light and dark, phone and desk."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark;
  --ground: #fbfaf8; --card: #ffffff; --ink: #1c1b1a; --soft: #68645f; --line: #e3dfd9;
  --accent: #1f5fa8; --gain: #1b7f5c; --loss: #b4472e; --wash: #f2efea; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #161718; --card: #1e2021; --ink: #ebe8e3; --soft: #a19c95; --line: #34373a;
  --accent: #7fb4f0; --gain: #5cc79d; --loss: #ee8a6d; --wash: #26292b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.15; margin: 0 0 .5rem; letter-spacing: -.015em; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .25rem; letter-spacing: -.01em; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .25rem 0 .75rem; max-width: 46rem; }
.soft, figcaption, caption { color: var(--soft); font-size: .875rem; }
.lead { font-size: 1.1rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem;
  background: var(--card); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .5rem .8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
tr:last-child > td, tr:last-child > th { border-bottom: 0; }
th { font-weight: 600; font-size: .82rem; color: var(--soft); }
td:first-child, th:first-child, .text { text-align: left; }
tbody th { color: var(--ink); font-size: 1rem; }
.best { font-weight: 700; color: var(--accent); }
.mark { color: var(--soft); margin-left: .1em; }
.gain { color: var(--gain); } .loss { color: var(--loss); }
details { border: 1px solid var(--line); border-radius: .5rem; background: var(--card);
  margin: .4rem 0; }
summary { cursor: pointer; padding: .55rem .8rem; display: flex; gap: .8rem;
  align-items: baseline; }
summary::before { content: "+"; color: var(--soft); width: .7rem; flex: none; }
details[open] > summary::before { content: "\\2212"; }
summary .query { flex: 1; font-weight: 600; overflow-wrap: anywhere; }
summary .value { font-variant-numeric: tabular-nums; white-space: nowrap; font-size: .9rem; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.inside { padding: 0 .8rem .8rem; }
.pair { display: grid; gap: .75rem 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(17rem, 100%), 1fr)); }
.pair h4 { margin: .3rem 0; font-size: .82rem; color: var(--soft); font-weight: 600; }
ol.titles { list-style: none; margin: 0; padding: 0; font-size: .92rem; }
ol.titles li { display: flex; gap: .55rem; padding: .2rem .4rem; border-radius: .3rem; }
ol.titles li.good { background: color-mix(in srgb, var(--gain) 14%, transparent); }
ol.titles .rank { color: var(--soft); min-width: 1.3rem; text-align: right;
  font-variant-numeric: tabular-nums; }
ol.titles .title { flex: 1; overflow-wrap: anywhere; }
ol.titles .grade { white-space: nowrap; font-size: .82rem; color: var(--soft); }
ol.titles li.good .grade { color: var(--gain); font-weight: 700; }
figure { margin: .75rem 0; padding: 1rem; border: 1px solid var(--line); border-radius: .5rem;
  background: var(--card); }
figure svg { max-width: 44rem; margin: 0 auto; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.two { display: grid; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); }
.two > * { min-width: 0; }
@media (max-width: 36rem) { main { padding: 1.5rem .9rem 3rem; } h1 { font-size: 1.5rem; }
  th, td { padding: .45rem .55rem; } }
@media print { details { break-inside: avoid; } }
"""


def page(title: str, body: str) -> str:
    """A whole HTML document.

    Args:
        title: plain text.
        body: HTML, already escaped.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, text: int = 1, caption: str = ""
) -> str:
    """A table that scrolls sideways where it is too wide.

    Args:
        head: HTML of the column heads.
        rows: HTML of the cells; the first of a row is its head.
        text: how many columns from the left hold words, not numbers.
        caption: HTML; none if empty.
    """

    def cells(row: Sequence[str], tag: str) -> str:
        out = []
        for place, cell in enumerate(row):
            kind = ' class="text"' if place < text else ""
            name = "th" if tag == "th" or place == 0 else "td"
            scope = ' scope="col"' if tag == "th" else ' scope="row"' if place == 0 else ""
            out.append(f"<{name}{scope}{kind}>{cell}</{name}>")
        return f"<tr>{''.join(out)}</tr>"

    return (
        '<div class="scroll"><table>\n'
        f"{f'<caption>{caption}</caption>' if caption else ''}"
        f"<thead>{cells(head, 'th')}</thead>\n<tbody>\n"
        + "\n".join(cells(row, "td") for row in rows)
        + "\n</tbody></table></div>"
    )
