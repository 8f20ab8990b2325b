"""`report.html` of preprocess: what became of the log's rows, and what there is to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dssm_tf.common.charts import interval_chart
from dssm_tf.common.page import page, table
from dssm_tf.tables.tally import Tally

_MAX_BARS = 20


def report_page(report: Mapping[str, Any]) -> str:
    """The page for what `report.make` returns."""
    body = [
        "<h1>Click log to training records</h1>",
        f'<p class="soft">{escape(", ".join(report["settings"]["input"]))}</p>',
        _tiles(report),
        _rows(report),
        _splits(report),
        '<div class="two">',
        _chart("Words in a query", "distinct queries by length", _lengths(report["query_words"])),
        _chart("Words in a title", "distinct titles by length", _lengths(report["title_words"])),
        _chart("Clicks on a query", "distinct queries by clicks", _clicks(report)),
        f"<div>{_vocabulary(report)}</div>",
        "</div>",
        _positions(report["positions"]),
        _samples(report["samples"], report["settings"]["negatives"]),
        _settings(report["settings"]),
    ]
    return page("Click log report", "\n".join(body))


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
    shown = table(
        ("rows", "reason", "number", "share"),
        [(kind, reason, f"{number:,}", _percent(number / total)) for kind, reason, number in lines],
        text=2,
    )
    notes = ["Rejected rows are malformed; rejects.tsv lists each with its file, line and reason."]
    if report["sessions"]:
        notes.append(f"The log names {report['sessions']:,} sessions.")
    if report["pairs_dropped"]:
        notes.append(f"{report['pairs_dropped']:,} pairs had too few clicks.")
    worst = Tally.of(rows)
    if worst.rejected:
        notes.append(f"The rejected rows are {worst.shares()}; below, the largest of them.")
    largest = "".join(
        f"<li>{escape(f'{file}:{row.line}, {row.reason}: {row.text}')}</li>"
        for file, row in worst.largest
    )
    return f'<h2>What became of the rows</h2>{shown}<p class="soft">{" ".join(notes)}</p>' + (
        f"<ul>{largest}</ul>" if largest else ""
    )


def _splits(report: Mapping[str, Any]) -> str:
    names = ("queries", "pairs", "clicks")
    rows = [
        (split, *(f"{counts[name]:,}" for name in names))
        for split, counts in report["splits"].items()
    ]
    return (
        f"<h2>Parts</h2>{table(('part', *names), rows)}"
        '<p class="soft">Parts are split by query: no query is in two of them. '
        f"{report['titles_train']:,} of {report['titles']:,} titles are clicked in the training "
        f"part{_of_corpus(report)}.</p>"
    )


def _of_corpus(report: Mapping[str, Any]) -> str:
    number = report["titles_corpus"]
    return f"; {number:,} are of the corpus" if number else ""


def _vocabulary(report: Mapping[str, Any]) -> str:
    one = report["vocabulary"]
    known = one["validation_trigrams_known"]
    text, shown = "There is no validation part to measure its coverage on.", ""
    if known is not None:
        text = "Of the validation part, whose queries did not choose the vocabulary:"
        words = f"all trigrams of a word ({one['validation_words']:,} distinct words)"
        rows = [
            ("trigram occurrences", _percent(known)),
            (words, _percent(one["validation_words_known"])),
        ]
        shown = table(("it knows", "share"), rows)
    return (
        f"<h2>Vocabulary</h2><p>{one['trigrams']:,} letter trigrams, fingerprint "
        f"{escape(one['fingerprint'])}. {text}</p>{shown}"
    )


def _positions(curve: Mapping[str, Any] | None) -> str:
    """The examination curve, where clicks are weighted by one."""
    if curve is None:
        return ""
    if curve["problem"]:
        return f"<h2>Positions</h2><p>{escape(curve['problem'])}; every click counts once.</p>"
    intervals = curve["intervals"] or [()] * len(curve["propensities"])
    rows = [
        (
            str(position),
            f"{propensity:.3f}",
            f"{interval[0]:.3f} to {interval[1]:.3f}" if interval else "",
            f"{weight:.2f}",
        )
        for position, (propensity, interval, weight) in enumerate(
            zip(curve["propensities"], intervals, curve["weights"], strict=True), start=1
        )
    ]
    basis = ", ".join(f"{number:,} {name}" for name, number in curve["basis"].items())
    rests = (
        f"estimated by {curve['method']} on {basis}" if basis else f"read from {curve['method']}"
    )
    unplaced = f" {curve['unplaced']:,} have no position and weigh 1." if curve["unplaced"] else ""
    chart = interval_chart(
        "How often a position is looked at, relative to the first"
        + (", with 95 % intervals" if curve["intervals"] else ""),
        curve["propensities"],
        curve["intervals"],
    )
    shown = table(("position", "propensity", "95 %", "weight of a click"), rows)
    return (
        f"<h2>Positions</h2><p>The examination curve is {escape(rests)}. It weighs "
        f"{curve['clicks']:,} clicks by the clipped inverse propensity of their position."
        f"{unplaced}</p>"
        f'<div class="two">{chart}<div>{shown}</div></div>'
    )


def _samples(samples: Sequence[Mapping[str, Any]], negatives: int) -> str:
    shown = []
    for sample in samples:
        titles = "".join(
            f'<li class="{"good" if at == 0 else ""}"><span class="title">{escape(text)}</span>'
            f'<span class="grade">{_clicks_of(clicks)}</span></li>'
            for at, (text, clicks, _) in enumerate(sample["titles"])
        )
        shown.append(
            f'<details open><summary><span class="query">{escape(sample["query"])}</span>'
            f'<span class="value">{_clicks_of(sample["clicks"])}</span></summary>'
            f'<div class="inside"><ol class="titles">{titles}</ol></div></details>'
        )
    return (
        "<h2>Training records, drawn at random</h2>"
        f'<p class="soft">Each query with its clicked title first, then up to {negatives} titles '
        "not clicked for it; clicks of a title are those of the training part.</p>" + "".join(shown)
    )


def _settings(settings: Mapping[str, Any]) -> str:
    rows = [
        (f"--{name}", escape(" ".join(value) if isinstance(value, (list, tuple)) else str(value)))
        for name, value in settings.items()
    ]
    return f"<h2>Settings</h2>{table(('flag', 'value'), rows, text=2)}"


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
            f'width="{step * 0.8:.1f}" height="{tall:.1f}" style="fill:var(--accent)">'
            f"<title>{escape(label)}: {number:,}</title></rect>"
        )
        if len(bars) <= 12 or at % 2 == 0:
            marks.append(
                f'<text x="{x + step / 2:.1f}" y="{height - 7}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
    described = ", ".join(f"{label}: {number}" for label, number in bars)
    return (
        f'<div><h2>{escape(title)}</h2><figure><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(described)}"><text x="0" y="11">{most:,}</text>'
        f'<line x1="0" y1="{height - bottom}" x2="{width}" y2="{height - bottom}" '
        'style="stroke:var(--line)"/>'
        + "".join(marks)
        + f"</svg><figcaption>{escape(note)}</figcaption></figure></div>"
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


def _most(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "&lt;0.1%"
    return "&gt;99.9%" if 0.999 < share < 1 else f"{share:.1%}"


def _clicks_of(number: float) -> str:
    return f"{number:,} click{'' if number == 1 else 's'}"
