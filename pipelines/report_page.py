"""`report.html`: one file, no scripts, nothing loaded from elsewhere, readable on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5c6b7a; --line: #d9e0e7;
  --bar: #2f6fb3; --card: #ffffff; --page: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #9fb0c0;
  --line: #33404d; --bar: #6aa9e9; --card: #1a222b; --page: #11171d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); font-size: .9rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: 1rem 1.1rem; margin: 1rem 0; overflow-x: auto; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; }
@media (max-width: 40rem) { .tiles { grid-template-columns: repeat(2, 1fr); } }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .7rem .9rem; } .tile b { display: block; font-size: 1.35rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
  gap: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; } th { color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 11px; }
svg rect { fill: var(--bar); } svg line { stroke: var(--line); }
.clicked { font-weight: 600; } ol { margin: 0; padding-left: 1.3rem; } li { margin: .15rem 0; }
details { border-top: 1px solid var(--line); padding: .4rem 0; } summary { cursor: pointer; }
"""
_MAX_BARS = 20


def page(report: Mapping[str, Any]) -> str:
    """The page for what `report.make` returns."""
    body = [
        "<h1>Click log to training records</h1>",
        f'<p class="soft">{escape(", ".join(report["settings"]["input"]))}</p>',
        _tiles(report),
        _rows(report),
        _splits(report),
        '<div class="pair">',
        _chart("Words in a query", "distinct queries by length", _lengths(report["query_words"])),
        _chart("Words in a title", "distinct titles by length", _lengths(report["title_words"])),
        _chart("Clicks on a query", "distinct queries by clicks", _clicks(report)),
        _vocabulary(report),
        "</div>",
        _samples(report["samples"], report["settings"]["negatives"]),
        _settings(report["settings"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Click log report</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _tiles(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    values = [
        ("rows in", rows["in"]),
        ("rows rejected", sum(rows["rejected"].values())),
        ("rows dropped", sum(rows["dropped"].values())),
        ("distinct queries", report["queries"]),
        ("distinct titles", report["titles"]),
        ("pairs", sum(one["pairs"] for one in report["splits"].values())),
        ("clicks", sum(one["clicks"] for one in report["splits"].values())),
        ("letter trigrams", report["vocabulary"]["trigrams"]),
    ]
    tiles = "".join(f'<div class="tile"><b>{value:,}</b>{name}</div>' for name, value in values)
    return f'<div class="tiles">{tiles}</div>'


def _rows(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    total = rows["in"]
    lines = [("read", "", total)]
    lines += [("rejected", reason, number) for reason, number in _most(rows["rejected"])]
    lines += [("dropped", reason, number) for reason, number in _most(rows["dropped"])]
    lines += [("used", "", rows["used"])]
    table = _table(
        ("rows", "reason", "number", "share"),
        [(kind, reason, f"{number:,}", _percent(number / total)) for kind, reason, number in lines],
        numbers=2,
    )
    notes = ["Rejected rows are malformed; rejects.tsv lists each with its file, line and reason."]
    if report["sessions"]:
        notes.append(f"The log names {report['sessions']:,} sessions.")
    if report["pairs_dropped"]:
        notes.append(f"{report['pairs_dropped']:,} pairs had too few clicks.")
    return (
        f"<section><h2>What became of the rows</h2>{table}"
        f'<p class="soft">{" ".join(notes)}</p></section>'
    )


def _splits(report: Mapping[str, Any]) -> str:
    names = ("queries", "pairs", "clicks")
    table = _table(
        ("part", *names),
        [
            (split, *(f"{counts[name]:,}" for name in names))
            for split, counts in report["splits"].items()
        ],
        numbers=3,
    )
    return (
        f"<section><h2>Parts</h2>{table}"
        '<p class="soft">Parts are split by query: no query is in two of them. '
        f"{report['titles_train']:,} of {report['titles']:,} titles are clicked in the training "
        f"part{_of_corpus(report)}.</p></section>"
    )


def _of_corpus(report: Mapping[str, Any]) -> str:
    number = report["titles_corpus"]
    return f"; {number:,} are of the corpus" if number else ""


def _vocabulary(report: Mapping[str, Any]) -> str:
    one = report["vocabulary"]
    known = one["validation_trigrams_known"]
    if known is None:
        text = "There is no validation part to measure its coverage on."
        rows = []
    else:
        text = "Of the validation part, whose queries did not choose the vocabulary, it knows:"
        rows = [
            ("trigram occurrences", _percent(known)),
            (
                f"all trigrams of a word ({one['validation_words']:,} distinct words)",
                _percent(one["validation_words_known"]),
            ),
        ]
    return (
        f"<section><h2>Vocabulary</h2><p>{one['trigrams']:,} letter trigrams, fingerprint "
        f"{escape(one['fingerprint'])}. {text}</p>{_table(('', ''), rows, numbers=1)}</section>"
    )


def _samples(samples: Sequence[Mapping[str, Any]], negatives: int) -> str:
    shown = []
    for sample in samples:
        titles = "".join(
            f"<li{' class=clicked' if at == 0 else ''}>{escape(text)} "
            f'<span class="soft">{_clicks_of(clicks)}</span></li>'
            for at, (text, clicks, _) in enumerate(sample["titles"])
        )
        shown.append(
            f"<details open><summary>{escape(sample['query'])} "
            f'<span class="soft">{_clicks_of(sample["clicks"])}</span></summary><ol>{titles}</ol>'
            "</details>"
        )
    return (
        "<section><h2>Training records, drawn at random</h2>"
        f'<p class="soft">Each query with its clicked title first, then up to {negatives} titles '
        "not clicked for it; clicks of a title are those of the training part.</p>"
        + "".join(shown)
        + "</section>"
    )


def _settings(settings: Mapping[str, Any]) -> str:
    flat = {**settings, **settings["limits"]}
    rows = [
        (f"--{name}", escape(" ".join(value) if isinstance(value, (list, tuple)) else str(value)))
        for name, value in flat.items()
        if name != "limits"
    ]
    return f"<section><h2>Settings</h2>{_table(('flag', 'value'), rows)}</section>"


def _chart(title: str, note: str, bars: Sequence[tuple[str, int]]) -> str:
    """A bar chart as inline SVG, with the numbers in its text for those who cannot see it."""
    width, height, top, bottom = 420, 190, 18, 22
    most = max((number for _, number in bars), default=1)
    step = width / max(len(bars), 1)
    marks = []
    for at, (label, number) in enumerate(bars):
        tall = (height - top - bottom) * number / most
        x = at * step
        marks.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{height - bottom - tall:.1f}" '
            f'width="{step * 0.8:.1f}" height="{tall:.1f}"><title>{escape(label)}: '
            f"{number:,}</title></rect>"
        )
        if len(bars) <= 12 or at % 2 == 0:
            marks.append(
                f'<text x="{x + step / 2:.1f}" y="{height - 7}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
    described = ", ".join(f"{label}: {number}" for label, number in bars)
    return (
        f'<section><h2>{escape(title)}</h2><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(described)}"><text x="0" y="11">{most:,}</text>'
        f'<line x1="0" y1="{height - bottom}" x2="{width}" y2="{height - bottom}"/>'
        + "".join(marks)
        + f'</svg><p class="soft">{escape(note)}</p></section>'
    )


def _lengths(histogram: Mapping[str, int]) -> list[tuple[str, int]]:
    """A bar a length, gaps included, the longest joined."""
    numbers = {int(length): number for length, number in histogram.items()}
    last = min(max(numbers, default=1), _MAX_BARS)
    bars = [(str(length), numbers.get(length, 0)) for length in range(1, last + 1)]
    if rest := sum(number for length, number in numbers.items() if length > last):
        bars.append((f">{last}", rest))
    return bars


def _clicks(report: Mapping[str, Any]) -> list[tuple[str, int]]:
    histogram = {int(most): number for most, number in report["clicks_a_query"].items()}
    bars, most = [], 1
    while most <= max(histogram, default=1):
        label = str(most) if most < 3 else f"{_short(most // 2 + 1)}-{_short(most)}"
        bars.append((label, histogram.get(most, 0)))
        most *= 2
    return bars


def _short(number: int) -> str:
    return str(number) if number < 1024 else f"{number / 1000:.0f}k"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A table whose last `numbers` columns hold numbers. Cells must be escaped already."""
    kinds = ["" if at < len(head) - numbers else ' class="n"' for at in range(len(head))]
    lines = []
    if any(head):
        cells = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, head, strict=True))
        lines.append(f"<tr>{cells}</tr>")
    for row in rows:
        cells = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>" if lines else ""


def _most(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "&lt;0.1%"
    return "&gt;99.9%" if 0.999 < share < 1 else f"{share:.1%}"


def _clicks_of(number: int) -> str:
    return f"{number:,} click{'' if number == 1 else 's'}"
