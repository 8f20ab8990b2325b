"""An evaluation as one Markdown text with figures, and on a terminal."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from dssm_tf.common.markdown import bullets, plain, table
from dssm_tf.common.terminal import say
from dssm_tf.evaluation.evaluation import PRIOR_SUFFIX, Evaluation, Row
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.evaluation.significance import SIGNIFICANT
from dssm_tf.reports.formatting import (
    COSTS,
    PARTS,
    Cell,
    cautions,
    cells_of,
    cost,
    costed,
    deciding_metric,
    mark,
    plural,
    protocol,
    reference,
    sentence,
)
from dssm_tf.reports.statistics import first_titles, labels, lengths

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(evaluation: Evaluation, written: str = "") -> None:
    """Prints the protocol, what was chosen, what failed, and last the tables.

    Args:
        evaluation: what to show.
        written: a line that says what was written; none if empty.
    """
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [*protocol(evaluation), *_choices(evaluation), *_remarks(evaluation)]
    say(*(textwrap.fill(line, width) if width else line for line in lines))
    if written:
        say(written)
    for part in evaluation.parts:
        say("", f"{PARTS[part]}:", "", means(evaluation, part, width))
    say("", means(evaluation, None, width))


def text(evaluation: Evaluation) -> tuple[str, dict[str, Figure]]:
    """The report: Markdown, and its figures by name."""
    sweeps, figures = _sweeps(evaluation)
    parts = [
        "# Benchmark" if costed(evaluation) else "# Evaluation",
        _lead(evaluation),
        means(evaluation),
        bullets(_remarks(evaluation)),
    ]
    for name, part in evaluation.parts.items():
        queries = plural(int(part.sum()), "query", "queries")
        parts += [f"## {PARTS[name]}", f"{queries}.", means(evaluation, name)]
    if choices := _choices(evaluation):
        parts += ["## What cross validation chose", bullets(choices)]
    parts += [*_tests(evaluation), *sweeps, *_first_titles(evaluation), *_lengths(evaluation)]
    parts += ["## How it was measured", bullets(protocol(evaluation))]
    return "\n\n".join(filter(None, parts)), figures


def means(evaluation: Evaluation, part: str | None = None, width: int | None = None) -> str:
    """Systems by metrics and costs; best in bold, raised letters for systems beaten.

    Args:
        evaluation: what to show.
        part: of the queries, a key of `parts`; all of them if None.
        width: of the terminal, see `markdown.table`.
    """
    costs = COSTS if costed(evaluation) and part is None else {}
    found = cells_of(evaluation, part)

    def shown(cell: Cell) -> str:
        mean, spread = f"**{cell['shown']}**" if cell["best"] else cell["shown"], cell["spread"]
        deviation = "" if spread is None else f" ±{spread:.3f}".replace("0.", ".")
        return f"{mean}{mark(evaluation, cell['beaten'])}{deviation} ({cell['interval']})"

    rows = []
    for row in evaluation.measured_rows if part else evaluation.rows:
        letter = "" if part else mark(evaluation, [row.name])
        cells = [*map(shown, found[row.name])] if row.seeds else ["failed"]
        if row.seeds:
            cells += [plain(cost(one, row.cost(one))) for one in costs]
        rows.append([f"{plain(row.name)} {letter if row.seeds else ''}".strip(), *cells])
    heads = ["System", *map(metric_label, evaluation.metrics), *costs.values()]
    return table(heads, rows, width=width)


def _lead(evaluation: Evaluation) -> str:
    """The best system in one sentence."""
    metric = deciding_metric(evaluation)
    place = evaluation.metrics.index(metric)
    cells = {name: found[place] for name, found in cells_of(evaluation).items()}
    shown = {name: f"{cell['shown']} ({cell['interval']})" for name, cell in cells.items()}
    best = max(cells, key=lambda name: cells[name]["mean"])
    text = f"**{plain(best)}** reaches {metric_label(metric)} {shown[best]}"
    if other := reference(evaluation, best):
        text += f" against {shown[other]} for {plain(other)}"
    text += f" on {plural(evaluation.measured_queries, 'query', 'queries')}; "
    text += f"{plural(len(cells), 'system was', 'systems were')} measured"
    failed = len(evaluation.rows) - len(cells)
    return f"{text}{f', {failed} failed' if failed else ''}."


def _remarks(evaluation: Evaluation) -> list[str]:
    """What a reader of single rows has to know."""
    failures = [
        f"{row.name} failed{' for some seeds' if row.seeds else ''}: {row.error}"
        for row in evaluation.rows
        if row.error
    ]
    notes = [sentence(f"{row.name} {note}") for row in evaluation.rows for note in row.notes]
    return [*cautions(evaluation), *failures, *notes]


def _choices(evaluation: Evaluation) -> list[str]:
    """One line a row for which something was chosen; equal choices of seeds once."""
    lines = []
    for row in evaluation.rows:
        shown: dict[str, list[str]] = {}
        for one in row.seeds:
            if "chosen" in one.about:
                shown.setdefault(_choice(one.about["chosen"]), []).append(str(one.seed))
        each = [f"{text} (seed {', '.join(seeds)})" for text, seeds in shown.items()]
        if shown:
            lines.append(f"{row.name} chose {'; '.join(each if len(shown) > 1 else shown)}")
    return lines


def _choice(chosen: str | Sequence[dict[str, Any]]) -> str:
    """What was chosen for both halves, or in words why nothing was."""
    if isinstance(chosen, str):
        return chosen
    halves = [f"{_values(half['values'])} for {half['reported_on']}" for half in chosen]
    same = chosen[0]["values"] == chosen[1]["values"]
    return _values(chosen[0]["values"]) if same else " and ".join(halves)


def _values(values: Mapping[str, Any]) -> str:
    """Parameters with their values; the weights of a fusion by their systems' names."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def _tests(evaluation: Evaluation) -> list[str]:
    """The tests that the raised letters come from."""

    def p(value: float) -> str:
        return plain("< 0.0001") if value < 0.0001 else f"{value:.4f}"

    tests = sorted(
        evaluation.comparisons, key=lambda one: one.metric != deciding_metric(evaluation)
    )
    rows = [
        [
            f"{plain(one.a)} minus {plain(one.b)}",
            metric_label(one.metric),
            f"{one.difference:+.3f}",
            f"[{one.ci95[0]:+.3f}, {one.ci95[1]:+.3f}]",
            p(one.p),
            f"**{p(one.p_adjusted)}**" if one.p_adjusted < SIGNIFICANT else p(one.p_adjusted),
        ]
        for one in tests
    ]
    heads = ["Systems", "Metric", "Difference", "95 % interval", "p", "p adjusted"]
    about = (
        "Difference of the means with its 95 % interval; paired t-test over queries, its p after "
        "Holm's correction over all of them."
    )
    return ["## The tests of the table", about, table(heads, rows, text=2)] if tests else []


def _sweeps(evaluation: Evaluation) -> tuple[list[str], dict[str, Figure]]:
    """P16 table IV, S14 tables 5 and 6; a picture of two values or more."""
    found, swept = cells_of(evaluation), defaultdict[str, list[tuple[str, Row]]](list)
    for row in evaluation.measured_rows:
        if row.sweep:
            target = row.name.split("=")[0] + (PRIOR_SUFFIX if row.prior else "")
            swept[target].append((str(row.sweep[1]), row))
    parts, figures = [], {}
    for number, (target, rows) in enumerate(swept.items(), start=1):
        cells = [
            [
                value,
                *(f"{cell['shown']} ({cell['interval']})" for cell in found[row.name]),
                cost("training_seconds", row.cost("training_seconds")),
            ]
            for value, row in rows
        ]
        heads = [plain(target), *map(metric_label, evaluation.metrics), "Training"]
        parts += [f"## Sweep over {plain(target)}", table(heads, cells)]
        if len(rows) > 1:
            from dssm_tf.common.figures import lines

            curves = {
                metric_label(metric): [found[row.name][place]["mean"] for _, row in rows]
                for place, metric in enumerate(evaluation.metrics)
            }
            ticks = [value for value, _ in rows]
            figures[f"sweep{number}"] = lines(f"Sweep over {target}", curves, target, ticks)
            parts.append(f"![Means over {plain(target)}](sweep{number}.svg)")
    return parts, figures


def _first_titles(evaluation: Evaluation) -> list[str]:
    """S14 fig. 3, and table 7 of the best system and the first one that it is compared with."""
    first = first_titles(evaluation.task, evaluation.runs)
    grades = labels(evaluation.task, first)
    rows = [
        [plain(name), *(f"{100 * found.count(grade) / len(found):.1f} %" for grade in grades)]
        for name, found in first.items()
    ]
    parts = ["## Grade of the first title", table(["System", *grades], rows)]
    best = max(first, key=lambda name: evaluation.mean(name, deciding_metric(evaluation)))
    if other := reference(evaluation, best):
        counts = Counter(zip(first[best], first[other], strict=True))
        a, b = plain(best), plain(other)
        body = [[f"{a}: {i}", *(str(counts[i, j]) for j in grades)] for i in grades]
        parts.append(f"Queries by the grade of the first title of {a} (down) and {b} (across):")
        parts.append(table(["", *(f"{b}: {grade}" for grade in grades)], body))
    return parts


def _lengths(evaluation: Evaluation) -> list[str]:
    """S14 fig. 2."""
    queries = lengths(evaluation.task.queries)
    titles = lengths(dict.fromkeys(evaluation.task.titles))
    means = [sum(words * share for words, share in found.items()) for found in (queries, titles)]
    rows = [
        [str(words), *(f"{100 * found.get(words, 0):.1f} %" for found in (queries, titles))]
        for words in sorted(queries | titles)
    ]
    return [
        "## Lengths of queries and titles",
        f"Mean length: queries {means[0]:.2f} words, titles {means[1]:.2f} words.",
        table(["Words", "Queries", "Titles"], rows),
    ]
