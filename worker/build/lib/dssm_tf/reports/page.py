"""`report.html`: tables, tests, queries and plots in one file without network.

The tables stand in the page as HTML; what one chooses on the page (a metric, two
systems) is drawn by its scripts from `page_data`. `page.html` beside this file is
its body: `<!-- name -->` is where a part goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from dssm_tf.common.charts import line_chart
from dssm_tf.common.page import Cell as HTMLCell
from dssm_tf.common.page import page, table
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.evaluation.significance import SIGNIFICANT, Comparison
from dssm_tf.reports.page_data import TITLES, page_data, shorten
from dssm_tf.reports.table import further_tables
from dssm_tf.reports.wording import (
    COSTS,
    PARTS,
    Cell,
    about_part,
    cautions,
    cells_of,
    cost,
    mark,
    plural,
    protocol,
    sentence,
    title,
)

_LEFT_OUT = 50  # queries without a relevant title that are named


def render(evaluation: Evaluation) -> str:
    """The whole page.

    Args:
        evaluation: with at least one row that was measured.
    """
    data = page_data(evaluation)
    parts = {
        "title": title(evaluation),
        "summary": _summary(evaluation),
        "table": means_table(evaluation),
        "remarks": _remarks(evaluation),
        "parts": _parts(evaluation),
        "comparisons": _comparisons(evaluation),
        "carried": _carried(evaluation, data),
        "further": _further(evaluation),
        "left out": _left_out(evaluation),
        "data": _json(data),
    }
    # One pass: what a text of the data says is never taken for a place.
    body = re.sub(r"<!-- ([a-z ]+) -->", lambda found: parts[found[1]], _file("page.html"))
    return page(title(evaluation), body, [_file("page.js")])


def means_table(evaluation: Evaluation) -> str:
    """Systems by metrics and costs; best in bold, raised letters for systems beaten."""
    means = cells_of(evaluation)
    costs = COSTS if evaluation.costed else {}
    rows: list[list[HTMLCell]] = []
    for row in evaluation.rows:
        letter = _raised(mark(evaluation, row.name))
        head = (_name(row.name) + letter, row.name)
        if not row.seeds:
            rows.append([head, f"failed: {escape(row.error or '')}"])
            continue
        cells = [_mean(evaluation, cell) for cell in means[row.name]]
        rows.append([head, *cells, *((cost(c, row.cost(c)), row.cost(c)) for c in costs)])
    heads: list[HTMLCell] = [(one, "ascending") for one in costs.values()]
    return _sortable(evaluation, "All systems.", rows, heads)


def _parts(evaluation: Evaluation) -> str:
    """A table a part of the queries."""
    shown = ""
    for part in evaluation.parts:
        rows = [
            [(_name(name), name), *(_mean(evaluation, cell) for cell in cells)]
            for name, cells in cells_of(evaluation, part).items()
        ]
        shown += f"<h2>{PARTS[part.name]}</h2>"
        shown += _sortable(evaluation, about_part(evaluation, part), rows)
    return shown


def _sortable(
    evaluation: Evaluation,
    caption: str,
    rows: Sequence[Sequence[HTMLCell]],
    costs: Sequence[HTMLCell] = (),
) -> str:
    metrics = [(metric_label(metric), "descending") for metric in evaluation.metrics]
    heads = [("System", "ascending"), *metrics, *costs]
    return table(heads, rows, caption=caption, sortable=True)


def _mean(evaluation: Evaluation, cell: Cell) -> HTMLCell:
    shown = f'<span class="best">{cell.shown}</span>' if cell.best else cell.shown
    letters = "".join(mark(evaluation, other) for other in cell.beaten)
    shown += _raised(letters, f"better than {', '.join(cell.beaten)}")
    if cell.spread is not None:
        shown += f' <span class="spread">±{cell.spread:.3f}</span>'
    shown += f'<span class="spread interval">{cell.interval}</span>'
    return shown, cell.mean


def _raised(letters: str, says: str = "") -> str:
    tip = f' title="{escape(says)}"' if says else ""
    return f'<span class="mark"{tip}>{letters}</span>' if letters else ""


def _name(name: str) -> str:
    """A system's name; that of a hybrid may be broken after each of its members."""
    return escape(name).replace("+", "+<wbr>")


def _summary(evaluation: Evaluation) -> str:
    metric = evaluation.deciding_metric
    means = {name: evaluation.mean(name, metric) for name in evaluation.systems}
    place = evaluation.metrics.index(metric)
    shown = {
        name: f"{cells[place].shown} ({cells[place].interval})"
        for name, cells in cells_of(evaluation).items()
    }
    best = max(means, key=lambda name: means[name])
    text = f"<strong>{escape(best)}</strong> reaches {metric_label(metric)} {shown[best]}"
    if other := evaluation.reference(best):
        text += f" against {shown[other]} for {escape(other)}"
    text += f" on {plural(evaluation.measured_queries, 'query', 'queries')}; "
    text += f"{plural(len(means), 'system was', 'systems were')} measured"
    failed = len(evaluation.rows) - len(means)
    return f"{text}{f', {failed} failed' if failed else ''}."


def _remarks(evaluation: Evaluation) -> str:
    """The protocol, and what a reader of single rows has to know."""
    notes = cautions(evaluation)
    notes += [sentence(f"{row.name} {note}") for row in evaluation.rows for note in row.notes]
    notes += [
        f"{row.name} failed for some seeds: {row.error}"
        for row in evaluation.rows
        if row.error and row.seeds
    ]
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    text = f'<p class="soft">{escape(" ".join(protocol(evaluation)))}</p>'
    return text + (f'<ul class="soft">{items}</ul>' if items else "")


def _comparisons(evaluation: Evaluation) -> str:
    """The table's own tests, with what its raised letters cannot say."""
    tests = evaluation.comparisons
    if not tests:
        return ""
    metric = evaluation.deciding_metric
    shown = _tests([test for test in tests if test.metric == metric], metric_label(metric))
    if others := [test for test in tests if test.metric != metric]:
        shown += _tests(others, "the other metrics")
    return (
        f'<details><summary><span class="query">The {len(tests):,} tests of the table, with '
        f'intervals</span></summary><div class="inside">{shown}<p class="soft">Difference of the '
        "means with its 95 % interval; paired t-test over queries, its p after Holm's "
        "correction over all of them.</p></div></details>"
    )


def _tests(comparisons: Sequence[Comparison], by: str) -> str:
    """Comparisons with their intervals drawn, on one scale."""
    widest = max(max(map(abs, test.ci95)) for test in comparisons)
    rows = []
    for test in comparisons:
        sure = _p(test.p_adjusted)
        rows.append(
            [
                f"{escape(test.a)} &minus; {escape(test.b)}",
                metric_label(test.metric),
                f'<span class="{_direction(test)}">{test.difference:+.3f}</span>',
                f"[{test.ci95[0]:+.3f}, {test.ci95[1]:+.3f}]",
                _interval(test, widest),
                _p(test.p),
                f"<strong>{sure}</strong>" if test.p_adjusted < SIGNIFICANT else sure,
            ]
        )
    head = ("Systems", "Metric", "Difference", "95 % interval", "")
    return table([*head, "p", "p adjusted"], rows, text=2, caption=f"Tests by {by}")


def _direction(test: Comparison) -> str:
    return "gain" if test.difference > 0 else "loss" if test.difference < 0 else "soft"


def _p(p: float) -> str:
    return "&lt; 0.0001" if p < 0.0001 else f"{p:.4f}"


def _interval(test: Comparison, widest: float) -> str:
    scale = 48 / widest if widest > 0 else 0
    low, high, mean = (50 + scale * x for x in (*test.ci95, test.difference))
    colour = f"var(--{_direction(test)})"
    return (
        '<svg viewBox="0 0 100 14" style="width:100px" aria-hidden="true">'
        '<line x1="50" x2="50" y1="0" y2="14" style="stroke:var(--line)"/>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="7" y2="7" '
        f'style="stroke:{colour};stroke-width:2"/>'
        f'<circle cx="{mean:.1f}" cy="7" r="3" style="fill:{colour}"/></svg>'
    )


def _carried(evaluation: Evaluation, data: Mapping[str, Any]) -> str:
    """How many of the queries the page holds."""
    measured, shown = evaluation.measured_queries, len(data["queries"])
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


def _further(evaluation: Evaluation) -> str:
    """The tables that table.md has, too; a sweep as a picture of two values or more."""
    parts = []
    for target, points in evaluation.sweeps.items():
        if len(points) > 1:
            lines = {
                metric_label(metric): [float(np.mean(row.means(metric))) for _, row in points]
                for metric in evaluation.metrics
            }
            parts.append(line_chart(f"Sweep over {target}", lines, [str(v) for v, _ in points]))
    for one in further_tables(evaluation):
        if one.title:
            parts.append(f"<h2>{escape(one.title)}</h2>")
        rows = [list(map(escape, row)) for row in one.rows]
        parts.append(table(list(map(escape, one.heads)), rows, caption=escape(one.text)))
    return "".join(parts)


def _left_out(evaluation: Evaluation) -> str:
    rows = evaluation.task.left_out()
    if not rows:
        return ""
    queries = [evaluation.task.queries[row] for row in rows[:_LEFT_OUT]]
    names = ", ".join(escape(shorten(query)) or "(empty)" for query in queries)
    more = f" and {len(rows) - _LEFT_OUT:,} more" if len(rows) > _LEFT_OUT else ""
    return (
        f"<h2>Queries left out</h2><p>{plural(len(rows), 'query has', 'queries have')} no relevant "
        f'title (all grades 0) and no part in the means:</p><p class="soft">{names}{more}</p>'
    )


def _json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _file(name: str) -> str:
    return (files("dssm_tf.reports") / name).read_text("utf-8")
