"""`report.html` of a benchmark: tables, tests, queries and plots in one file without network.

The tables stand in the page as HTML; what one chooses on the page (a metric, two
systems) is drawn by its script from `report_data`. The `benchmark*.html` files
beside this one are its parts: `<!-- name -->` is where a part goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.benchmark.report_data import (
    TITLES,
    deciding_metric,
    report_data,
    shorten,
)
from dssm_tf.benchmark.result import COSTS, BenchmarkResult, Row, spread
from dssm_tf.benchmark.table import COST_HEADS, seconds, size
from dssm_tf.common.page import STYLE
from dssm_tf.evaluation.evaluation import metric_label
from dssm_tf.evaluation.report import comparisons_html

_LEFT_OUT = 50  # queries without a relevant title that are named
_PARTS = ("style", "tables", "queries", "plots")


def render(result: BenchmarkResult) -> str:
    """The whole page.

    Args:
        result: with at least one row that was measured.
    """
    data = report_data(result)
    parts = {
        "base style": f"<style>{STYLE}</style>",
        "summary": _summary(result),
        "table": _table(result),
        "remarks": _remarks(result),
        "new queries": _new_queries(result),
        "comparisons": _comparisons(result),
        "carried": _carried(result, data),
        "left out": _left_out(result),
        "data": _json(data),
        **{name: _part(f"benchmark_{name}.html") for name in _PARTS},
    }
    # One pass: what a text of the data says is never taken for a place.
    return re.sub(r"<!-- ([a-z ]+) -->", lambda found: parts[found[1]], _part("benchmark.html"))


def _part(name: str) -> str:
    return (files("dssm_tf.benchmark") / name).read_text("utf-8")


def _json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _summary(result: BenchmarkResult) -> str:
    metric = deciding_metric(result)
    means = {row.name: float(np.mean(row.means(metric))) for row in result.measured_rows}
    best = max(means, key=lambda name: means[name])
    text = f"<strong>{escape(best)}</strong> reaches {metric_label(metric)} {means[best]:.3f}"
    other = next((name for name in result.against if name != best), None)
    if other:
        text += f" against {means[other]:.3f} for {escape(other)}"
    queries = result.evaluation.measured_queries
    text += f" on {queries:,} {'query' if queries == 1 else 'queries'}; "
    text += f"{len(means)} {'system was' if len(means) == 1 else 'systems were'} measured"
    failed = len(result.rows) - len(means)
    return f"{text}{f', {failed} failed' if failed else ''}."


def _table(result: BenchmarkResult) -> str:
    """Systems by metrics and costs; failed ones last wherever one sorts."""
    rows = []
    for row in result.rows:
        head = f"{escape(row.name)}{_mark(result.mark(row.name))}"
        if not row.seeds:
            columns = len(result.metrics) + len(COSTS)
            rows.append(
                f'<tr class="failed"><th scope="row" data-value="{escape(row.name)}">{head}</th>'
                f'<td class="text" colspan="{columns}">failed: {escape(row.error or "")}</td></tr>'
            )
            continue
        cells = _metric_cells(result, row, None)
        for cost, shown in zip(COSTS, (seconds, size, size, size), strict=True):
            value = row.cost(cost)
            cells.append(_cell(shown(value), value))
        rows.append(_row(row.name, head, cells))
    return _sortable(
        "All systems; press a head to sort.",
        [*map(metric_label, result.metrics), *COST_HEADS],
        rows,
        falling=len(result.metrics),
    )


def _comparisons(result: BenchmarkResult) -> str:
    """The table's own tests, with what its raised letters cannot say."""
    tests = len(result.evaluation.comparisons)
    if not tests:
        return ""
    return (
        f'<details><summary><span class="query">The {tests:,} tests of the table, with '
        f'intervals</span></summary><div class="inside">{comparisons_html(result.evaluation)}'
        '<p class="soft">Difference of the means with its 95 % bootstrap interval; paired t-test '
        "over queries, its p after Holm's correction over all tests of the table, and as a check "
        "p by randomisation (each query's sign may flip).</p></div></details>"
    )


def _new_queries(result: BenchmarkResult) -> str:
    if not result.splits_by_seen:
        return ""
    new = result.new_queries()
    rows = [
        _row(row.name, escape(row.name), _metric_cells(result, row, new))
        for row in result.measured_rows
    ]
    caption = f"The {int(new.sum()):,} queries that the click log does not hold."
    heads = list(map(metric_label, result.metrics))
    return f"<h2>Queries new to the log</h2>{_sortable(caption, heads, rows, len(heads))}"


def _metric_cells(
    result: BenchmarkResult, row: Row, queries: NDArray[np.bool_] | None
) -> list[str]:
    """Mean and spread of each metric; letters of systems beaten, where all queries count."""
    cells = []
    for metric in result.metrics:
        means = row.means(metric, queries)
        mean = float(np.mean(means))
        shown = f"{mean:.3f}"
        best = max(float(np.mean(one.means(metric, queries))) for one in result.measured_rows)
        if shown == f"{best:.3f}" and len(result.measured_rows) > 1:
            shown = f'<span class="best">{shown}</span>'
        beaten = [] if queries is not None else result.beaten(row.name, metric)
        if beaten:
            title = escape(f"better than {', '.join(beaten)}")
            letters = "".join(result.mark(other) for other in beaten)
            shown += f'<span class="mark" title="{title}">{letters}</span>'
        deviation = spread(means)
        if deviation is not None:
            shown += f' <span class="spread">±{deviation:.3f}</span>'
        cells.append(_cell(shown, mean))
    return cells


def _cell(shown: str, value: float | None) -> str:
    return f'<td data-value="{"" if value is None else f"{value:.8g}"}">{shown}</td>'


def _row(name: str, head: str, cells: Sequence[str]) -> str:
    return f'<tr><th scope="row" data-value="{escape(name)}">{head}</th>{"".join(cells)}</tr>'


def _sortable(caption: str, heads: Sequence[str], rows: Sequence[str], falling: int) -> str:
    """A table whose heads are buttons.

    Args:
        caption: HTML.
        heads: of the columns after the systems' names.
        rows: HTML of the rows.
        falling: how many of these columns have their best value on top, the greatest.
    """
    columns = "".join(
        f'<th scope="col"><button type="button" data-first="'
        f'{"descending" if 0 < place <= falling or head == "Texts/s" else "ascending"}">'
        f'{head}<span class="arrow" aria-hidden="true"></span></button></th>'
        for place, head in enumerate(["System", *heads])
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table, scrolls sideways">'
        f'<table class="sortable"><caption><span>{caption}</span></caption>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody></table>"
        "</div>"
    )


def _mark(letters: str) -> str:
    return f'<span class="mark">{letters}</span>' if letters else ""


def _remarks(result: BenchmarkResult) -> str:
    """The protocol, and what a reader of single rows has to know."""
    notes = [f"{row.name} {note}." for row in result.rows for note in row.notes]
    notes += [
        f"{row.name} failed for some seeds: {row.error}"
        for row in result.rows
        if row.error and row.seeds
    ]
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    protocol = f'<p class="soft">{escape(" ".join(result.protocol()))}</p>'
    return protocol + (f'<ul class="soft">{items}</ul>' if items else "")


def _carried(result: BenchmarkResult, data: Mapping[str, Any]) -> str:
    """How much of the benchmark the page holds."""
    measured, shown = result.evaluation.measured_queries, len(data["queries"])
    ranked = len(data["rankings"])
    if shown < measured:
        text = (
            f"Drawn and listed here are {shown:,} of the {measured:,} queries, an even sample; "
            "counts and tests are of all."
        )
    else:
        text = f"Drawn and listed here are all {measured:,} queries."
    if ranked < measured:
        text += (
            f" Titles (the first {TITLES} of every system) are kept for {ranked:,} queries, those "
            "on which systems differ most and the best and worst of each; the others are listed "
            "without. per_query.json and runs/ hold everything."
        )
    else:
        text += f" The first {TITLES} titles of every system are kept for each."
    return text


def _left_out(result: BenchmarkResult) -> str:
    rows = result.evaluation.task.left_out()
    if not rows:
        return ""
    queries = [result.evaluation.task.queries[row] for row in rows[:_LEFT_OUT]]
    names = ", ".join(escape(shorten(query)) or "(empty)" for query in queries)
    more = f" and {len(rows) - _LEFT_OUT:,} more" if len(rows) > _LEFT_OUT else ""
    return (
        f"<h2>Queries left out</h2><p>{len(rows):,} "
        f"{'query has' if len(rows) == 1 else 'queries have'} no relevant title (all grades 0) "
        f'and no part in the means:</p><p class="soft">{names}{more}</p>'
    )
