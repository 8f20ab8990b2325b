"""`report.html`: the table, the tests, and the queries behind the numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.page import page, table
from dssm_tf.evaluation.evaluation import SIGNIFICANT, Comparison, Evaluation, metric_label

EXAMPLES = 10  # queries shown of each kind
TITLES = 5  # titles shown of each ranking
_BINS = 20


def render(evaluation: Evaluation) -> str:
    """The whole page."""
    parts = [
        "<h1>Evaluation</h1>",
        _summary(evaluation),
        means_table(evaluation),
        f'<p class="soft">{escape(" ".join(evaluation.protocol()))}</p>',
    ]
    if evaluation.comparisons:
        parts += [
            "<h2>Are the differences more than luck?</h2>",
            comparisons_html(evaluation),
            '<p class="soft">Difference of the means with its 95 % bootstrap interval; '
            "paired t-test over queries, its p after Holm's adjustment for the number "
            "of pairs of the metric, and as a check p by randomisation (each query's sign may "
            "flip).</p>",
        ]
    metric = _deciding_metric(evaluation)
    first, *others = evaluation.systems
    for other in reversed(others):
        parts.append(_gains(evaluation, other, first, metric))
    for system in reversed(evaluation.systems):
        parts.append(_best_and_worst(evaluation, system, metric))
    parts.append(_left_out(evaluation))
    return page("Evaluation", "\n".join(parts))


def means_table(evaluation: Evaluation) -> str:
    """Systems by metrics; best in bold, raised letters for systems beaten."""
    metrics = evaluation.metrics
    best = {m: max(evaluation.mean(s, m) for s in evaluation.systems) for m in metrics}
    rows = []
    for system in evaluation.systems:
        cells = [f"{escape(system)} {_mark(evaluation.mark(system))}"]
        for metric in metrics:
            mean = evaluation.mean(system, metric)
            beaten = evaluation.beaten(system, metric)
            marks = "".join(evaluation.mark(other) for other in beaten)
            title = f' title="better than {escape(", ".join(beaten))}"' if beaten else ""
            shown = f"{mean:.3f}"
            if mean == best[metric]:
                shown = f'<span class="best">{shown}</span>'
            cells.append(f"<span{title}>{shown}{_mark(marks)}</span>")
        rows.append(cells)
    return table(["System", *map(metric_label, metrics)], rows)


def tests_table(comparisons: Sequence[Comparison], caption: str) -> str:
    """Comparisons with their intervals drawn, on one scale."""
    widest = max((max(map(abs, test.ci95)) for test in comparisons), default=0)
    rows = [
        [
            f"{escape(test.a)} &minus; {escape(test.b)}",
            metric_label(test.metric),
            f'<span class="{_direction(test)}">{test.difference:+.3f}</span>',
            f"[{test.ci95[0]:+.3f}, {test.ci95[1]:+.3f}]",
            _interval(test, widest),
            _p(test.p),
            f"<strong>{_p(test.p_adjusted)}</strong>"
            if test.p_adjusted < SIGNIFICANT
            else _p(test.p_adjusted),
            _p(test.p_randomisation),
        ]
        for test in comparisons
    ]
    head = [
        "Systems",
        "Metric",
        "Difference",
        "95 % interval",
        "",
        "p",
        "p adjusted",
        "p, randomised",
    ]
    return table(head, rows, text=2, caption=caption)


def gains_histogram(differences: NDArray[np.float64], a: str, b: str, metric: str) -> str:
    """How many queries gained or lost how much, as an SVG figure; equal queries are counted."""
    changed = differences[differences != 0]
    counts, edges = np.histogram(changed, bins=_BINS, range=(-1, 1))
    width, height, base = 440, 190, 150
    step = width / _BINS
    tallest = max(1, int(counts.max(initial=0)))
    bars, labels = [], []
    for place, count in enumerate(counts):
        if not count:
            continue
        tall = max(2.0, 125 * count / tallest)
        colour = "var(--gain)" if place >= _BINS // 2 else "var(--loss)"
        x = place * step
        bars.append(
            f'<rect x="{x + 2:.1f}" y="{base - tall:.1f}" width="{step - 4:.1f}" '
            f'height="{tall:.1f}" rx="2" style="fill:{colour}"><title>{count} queries from '
            f"{edges[place]:+.1f} to {edges[place + 1]:+.1f}</title></rect>"
        )
        labels.append(
            f'<text x="{x + step / 2:.1f}" y="{base - tall - 5:.1f}" text-anchor="middle">'
            f"{count}</text>"
        )
    ticks = "".join(
        f'<text x="{width * (value + 1) / 2:.0f}" y="{base + 18}" text-anchor="{anchor}">'
        f"{value:+g}</text>"
        for value, anchor in zip(
            (-1, -0.5, 0, 0.5, 1), ("start", "middle", "middle", "middle", "end"), strict=True
        )
    )
    label = metric_label(metric)
    gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{gained} queries gained and {lost} lost {label}">'
        f'<line x1="0" x2="{width}" y1="{base}" y2="{base}" style="stroke:var(--line)"/>'
        f'<line x1="{width / 2}" x2="{width / 2}" y1="8" y2="{base}" '
        'style="stroke:var(--line);stroke-dasharray:3 3"/>'
        f"{''.join(bars)}{''.join(labels)}{ticks}"
        f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">'
        f"{label}: {escape(a)} minus {escape(b)}</text></svg>"
        f'<figcaption><span class="gain">{gained:,} queries gained</span>, '
        f'<span class="loss">{lost:,} lost</span>, '
        f"{len(differences) - gained - lost:,} did not change (not drawn).</figcaption></figure>"
    )


def ranking_html(evaluation: Evaluation, system: str, query: int, depth: int = TITLES) -> str:
    """The top of one ranking, relevant titles marked with their grade."""
    lines = []
    for line in evaluation.top(system, query, depth):
        good = ' class="good"' if line.grade else ""
        grade = f'<span class="grade">grade {line.grade:g}</span>' if line.grade else ""
        lines.append(
            f'<li{good}><span class="rank">{line.rank}</span>'
            f'<span class="title">{escape(line.title)}</span>{grade}</li>'
        )
    return f'<ol class="titles">{"".join(lines) or "<li>nothing ranked</li>"}</ol>'


def comparisons_html(evaluation: Evaluation) -> str:
    """The deciding metric's table, and the other metrics' folded away."""
    deciding = _deciding_metric(evaluation)
    shown = [test for test in evaluation.comparisons if test.metric == deciding]
    folded = [test for test in evaluation.comparisons if test.metric != deciding]
    html = tests_table(shown, f"Tests by {metric_label(deciding)}")
    if folded:
        others = tests_table(folded, "Tests by the other metrics")
        html += (
            '<details><summary><span class="query">The other metrics</span></summary>'
            f'<div class="inside">{others}</div></details>'
        )
    return html


def _summary(evaluation: Evaluation) -> str:
    metric = _deciding_metric(evaluation)
    label = metric_label(metric)
    best = max(evaluation.systems, key=lambda system: evaluation.mean(system, metric))
    text = f"<strong>{escape(best)}</strong> reaches {label} {evaluation.mean(best, metric):.3f}"
    first = evaluation.systems[0]
    if best != first:
        text += f" against {evaluation.mean(first, metric):.3f} for {escape(first)}"
    text += f" on {evaluation.measured_queries:,} queries."
    return f'<p class="lead">{text}</p>'


def _deciding_metric(evaluation: Evaluation) -> str:
    return "ndcg@10" if "ndcg@10" in evaluation.metrics else evaluation.metrics[0]


def _gains(evaluation: Evaluation, a: str, b: str, metric: str) -> str:
    values_a, values_b = evaluation.values[a][metric], evaluation.values[b][metric]
    differences = values_a - values_b
    measured = np.flatnonzero(~np.isnan(differences))
    order = measured[np.argsort(-differences[measured], kind="stable")]
    gains = [query for query in order if differences[query] > 0][:EXAMPLES]
    losses = [query for query in order[::-1] if differences[query] < 0][:EXAMPLES]

    def examples(queries: Iterable[int], kind: str) -> str:
        return (
            "".join(
                _example(
                    evaluation,
                    query,
                    f'<span class="value {kind}">{differences[query]:+.2f}</span>',
                    {
                        f"{a}: {values_a[query]:.2f}": a,
                        f"{b}: {values_b[query]:.2f}": b,
                    },
                )
                for query in queries
            )
            or '<p class="soft">None.</p>'
        )

    return (
        f"<h2>Query by query: {escape(a)} against {escape(b)}</h2>"
        + gains_histogram(differences[measured], a, b, metric)
        + f'<div class="two"><div><h3>Largest gains</h3>{examples(gains, "gain")}</div>'
        + f"<div><h3>Largest losses</h3>{examples(losses, 'loss')}</div></div>"
    )


def _best_and_worst(evaluation: Evaluation, system: str, metric: str) -> str:
    values = evaluation.values[system][metric]
    measured = np.flatnonzero(~np.isnan(values))
    order = measured[np.argsort(-values[measured], kind="stable")]
    worst = [query for query in order[::-1] if values[query] < 1][:EXAMPLES]

    def examples(queries: Iterable[int]) -> str:
        return (
            "".join(
                _example(
                    evaluation,
                    query,
                    f'<span class="value">{values[query]:.2f}</span>',
                    {system: system},
                )
                for query in queries
            )
            or '<p class="soft">None.</p>'
        )

    return (
        f"<h2>Best and worst queries of {escape(system)}</h2>"
        f'<p class="soft">{int((values == 1).sum()):,} queries have the best possible '
        f"{metric_label(metric)}, {int((values == 0).sum()):,} have 0.</p>"
        f'<div class="two"><div><h3>Best</h3>{examples(order[:EXAMPLES])}</div>'
        f"<div><h3>Worst</h3>{examples(worst)}</div></div>"
    )


def _example(evaluation: Evaluation, query: int, value: str, rankings: dict[str, str]) -> str:
    task = evaluation.task
    lists = "".join(
        f"<div><h4>{escape(head)}</h4>{ranking_html(evaluation, system, query)}</div>"
        for head, system in rankings.items()
    )
    wanted = sorted(
        zip(task.judged_grades[query], task.judged_columns[query], strict=True), reverse=True
    )
    answers = "; ".join(
        f"{escape(task.titles[column])} ({grade:g})"
        for grade, column in wanted[:TITLES]
        if grade > 0
    )
    more = sum(grade > 0 for grade, _ in wanted) - TITLES
    more_text = f" and {more} more" if more > 0 else ""
    return (
        f'<details><summary><span class="query">{escape(task.queries[query]) or "(empty)"}</span>'
        f'{value}</summary><div class="inside"><div class="pair">{lists}</div>'
        f'<p class="soft">Relevant (grade): {answers}{more_text}</p></div></details>'
    )


def _left_out(evaluation: Evaluation) -> str:
    rows = evaluation.task.left_out()
    if not rows:
        return ""
    shown = ", ".join(escape(evaluation.task.queries[row]) or "(empty)" for row in rows[:50])
    more = f" and {len(rows) - 50:,} more" if len(rows) > 50 else ""
    return (
        f"<h2>Queries left out</h2><p>{len(rows):,} queries have no relevant title "
        f'(all grades 0) and no part in the means:</p><p class="soft">{shown}{more}</p>'
    )


def _mark(letters: str) -> str:
    return f'<span class="mark">{letters}</span>' if letters else ""


def _direction(test: Comparison) -> str:
    return "gain" if test.difference > 0 else "loss" if test.difference < 0 else ""


def _p(p: float) -> str:
    return "&lt; 0.0001" if p < 0.0001 else f"{p:.4f}"


def _interval(test: Comparison, widest: float) -> str:
    scale = 48 / widest if widest > 0 else 0
    low, high, mean = (50 + scale * x for x in (*test.ci95, test.difference))
    colour = {"gain": "var(--gain)", "loss": "var(--loss)"}.get(_direction(test), "var(--soft)")
    return (
        '<svg viewBox="0 0 100 14" style="width:100px" aria-hidden="true">'
        '<line x1="50" x2="50" y1="0" y2="14" style="stroke:var(--line)"/>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="7" y2="7" '
        f'style="stroke:{colour};stroke-width:2"/>'
        f'<circle cx="{mean:.1f}" cy="7" r="3" style="fill:{colour}"/></svg>'
    )
