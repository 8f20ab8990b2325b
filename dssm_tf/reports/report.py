"""The report of an evaluation: Markdown with figures, and text for the terminal."""

from __future__ import annotations

import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from dssm_tf.common.terminal import say
from dssm_tf.evaluation.evaluation import PRIOR_SUFFIX, Evaluation, Row
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.evaluation.significance import SIGNIFICANCE_LEVEL
from dssm_tf.reports.formatting import (
    COSTS,
    SUBSET_HEADINGS,
    MeanCell,
    cost,
    deciding_metric,
    has_costs,
    judged_only_protocol,
    marked_name,
    mean_cells,
    overlap_lines,
    plural,
    protocol,
    query_warnings,
    reference_system,
    sentence,
    superscripts,
)
from dssm_tf.reports.markdown import bullets, plain, table
from dssm_tf.reports.statistics import first_title_labels, labels, lengths

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_JUDGED_ONLY = "Judged titles only"


def show(evaluation: Evaluation, written: str = "") -> None:
    """Prints the protocol, the chosen parameters, failures and notes, and finally the tables.

    Args:
        evaluation: the results to print.
        written: a line that names the written files; not printed if empty.
    """
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [*protocol(evaluation), *_choices(evaluation), *_remarks(evaluation)]
    say(*(textwrap.fill(line, width) if width else line for line in lines))
    if written:
        say(written)
    for subset in evaluation.query_subsets:
        say("", f"{SUBSET_HEADINGS[subset]}:", "", means(evaluation, subset, width))
    say("", means(evaluation, None, width))
    if judged_only := evaluation.judged_only:
        lines = judged_only_protocol(judged_only)
        say("", f"{_JUDGED_ONLY}:", "")
        say(*(textwrap.fill(line, width) if width else line for line in lines))
        say("", means(judged_only, None, width))


def text(evaluation: Evaluation) -> tuple[str, dict[str, Figure]]:
    """Returns the report as Markdown, and its figures by name."""
    sweeps, figures = _sweeps(evaluation)
    sections = [
        "# Benchmark" if has_costs(evaluation) else "# Evaluation",
        bullets(overlap_lines(evaluation)),
        _best_system(evaluation),
        means(evaluation),
        bullets(_remarks(evaluation)),
    ]
    if judged_only := evaluation.judged_only:
        lines = bullets(judged_only_protocol(judged_only))
        sections += [f"### {_JUDGED_ONLY}", means(judged_only), lines]
    for name, mask in evaluation.query_subsets.items():
        queries = plural(int(mask.sum()), "query", "queries")
        sections += [f"## {SUBSET_HEADINGS[name]}", f"{queries}.", means(evaluation, name)]
    if choices := _choices(evaluation):
        sections += ["## Parameters chosen by cross-validation", bullets(choices)]
    sections += _tests("The tests of the table", evaluation)
    if judged_only:
        sections += _tests("The tests on judged titles only", judged_only)
    sections += [*sweeps, *_first_titles(evaluation), *_lengths(evaluation)]
    sections += ["## How it was measured", bullets(protocol(evaluation))]
    return "\n\n".join(filter(None, sections)), figures


def means(evaluation: Evaluation, subset: str | None = None, width: int | None = None) -> str:
    """Table of systems by metrics and costs.

    The best means are bold. Superscripts name the systems that are significantly worse. Systems
    that were trained on judged queries have a mark, but no bold means and no superscripts.

    Args:
        evaluation: the results.
        subset: a key of `Evaluation.query_subsets`; all queries if None.
        width: width of the terminal, see `markdown.table`.
    """
    costs = COSTS if has_costs(evaluation) and subset is None else {}
    system_cells = mean_cells(evaluation, subset)

    def formatted(cell: MeanCell) -> str:
        mean, spread = f"**{cell['text']}**" if cell["best"] else cell["text"], cell["spread"]
        deviation = "" if spread is None else f" ±{spread:.3f}".replace("0.", ".")
        letters = superscripts(evaluation, cell["significantly_worse_systems"])
        return f"{mean}{letters}{deviation} ({cell['interval']})"

    rows = []
    for row in evaluation.measured_rows if subset else evaluation.rows:
        letter = "" if subset else superscripts(evaluation, [row.name])
        cells = [*map(formatted, system_cells[row.name])] if row.seeds else ["failed"]
        if row.seeds:
            cells += [plain(cost(name, row.cost(name))) for name in costs]
        name = plain(marked_name(evaluation, row.name, subset))
        rows.append([f"{name} {letter if row.seeds else ''}".strip(), *cells])
    heads = ["System", *map(metric_label, evaluation.metrics), *costs.values()]
    return table(heads, rows, width=width)


def _best_system(evaluation: Evaluation) -> str:
    """The best system in one sentence."""
    metric = deciding_metric(evaluation)
    index = evaluation.metrics.index(metric)
    cells = {name: system_cells[index] for name, system_cells in mean_cells(evaluation).items()}
    values = {name: f"{cell['text']} ({cell['interval']})" for name, cell in cells.items()}
    compared = cells.keys() - evaluation.marked() or cells.keys()
    best = max((name for name in cells if name in compared), key=lambda name: cells[name]["mean"])
    name = plain(marked_name(evaluation, best))
    name = name if best in evaluation.marked() else f"**{name}**"
    text = f"{name} reaches {metric_label(metric)} {values[best]}"
    if other := reference_system(evaluation, best):
        text += f" against {values[other]} for {plain(other)}"
    text += f" on {plural(evaluation.measured_queries, 'query', 'queries')}; "
    text += f"{plural(len(cells), 'system was', 'systems were')} measured"
    failed = len(evaluation.rows) - len(cells)
    return f"{text}{f', {failed} failed' if failed else ''}."


def _remarks(evaluation: Evaluation) -> list[str]:
    """Warnings, failures, and notes about single rows."""
    failures = [
        f"{row.name} failed{' for some seeds' if row.seeds else ''}: {row.error}"
        for row in evaluation.rows
        if row.error
    ]
    notes = [sentence(f"{row.name} {note}") for row in evaluation.rows for note in row.notes]
    return [*query_warnings(evaluation), *failures, *notes]


def _choices(evaluation: Evaluation) -> list[str]:
    """One line per row with chosen parameters; seeds with the same choice are merged."""
    lines = []
    for row in evaluation.rows:
        seeds_by_choice: dict[str, list[str]] = {}
        for result in row.seeds:
            if "chosen" in result.facts:
                choice = _choice(result.facts["chosen"])
                seeds_by_choice.setdefault(choice, []).append(str(result.seed))
        choices = list(seeds_by_choice)
        if len(choices) > 1:
            choices = [
                f"{text} (seed {', '.join(seeds)})" for text, seeds in seeds_by_choice.items()
            ]
        if choices:
            lines.append(f"{row.name} chose {'; '.join(choices)}")
    return lines


def _choice(chosen: str | Sequence[dict[str, Any]]) -> str:
    """The chosen values of both folds, or the text that says why none were chosen."""
    if isinstance(chosen, str):
        return chosen
    choices = [f"{_values(fold['values'])} for {fold['reported_on']}" for fold in chosen]
    same = chosen[0]["values"] == chosen[1]["values"]
    return _values(chosen[0]["values"]) if same else " and ".join(choices)


def _values(values: Mapping[str, Any]) -> str:
    """Parameters with their values; weights of a fusion are named after their systems."""
    return ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


def _tests(heading: str, evaluation: Evaluation) -> list[str]:
    """A section with the tests that the superscripts are based on."""

    def p(value: float) -> str:
        return plain("< 0.0001") if value < 0.0001 else f"{value:.4f}"

    tests = sorted(
        evaluation.comparisons, key=lambda test: test.metric != deciding_metric(evaluation)
    )
    rows = [
        [
            f"{plain(marked_name(evaluation, test.a))} minus "
            f"{plain(marked_name(evaluation, test.b))}",
            metric_label(test.metric),
            f"{test.difference:+.3f}",
            f"[{test.ci95[0]:+.3f}, {test.ci95[1]:+.3f}]",
            p(test.p),
            f"**{p(test.p_adjusted)}**"
            if test.p_adjusted < SIGNIFICANCE_LEVEL
            and evaluation.marked().isdisjoint((test.a, test.b))
            else p(test.p_adjusted),
        ]
        for test in tests
    ]
    heads = ["Systems", "Metric", "Difference", "95 % interval", "p", "p adjusted"]
    description = (
        "Difference of the means with its 95 % interval; paired t-test over queries; p adjusted "
        "by Holm's correction over all these tests."
    )
    return [f"## {heading}", description, table(heads, rows, text_columns=2)] if tests else []


def _sweeps(evaluation: Evaluation) -> tuple[list[str], dict[str, Figure]]:
    """A table per sweep; a figure if it has several values.

    Like table IV of Palangi et al. 2016, and tables 5 and 6 of Shen et al. 2014.
    """
    means_by_system = mean_cells(evaluation)
    sweeps = defaultdict[str, list[tuple[str, Row]]](list)
    for row in evaluation.measured_rows:
        if row.sweep:
            target = row.name.split("=")[0] + (PRIOR_SUFFIX if row.prior else "")
            sweeps[target].append((str(row.sweep[1]), row))
    sections, figures = [], {}
    for number, (target, rows) in enumerate(sweeps.items(), start=1):
        cells = [
            [
                value,
                *(f"{cell['text']} ({cell['interval']})" for cell in means_by_system[row.name]),
                cost("training_seconds", row.cost("training_seconds")),
            ]
            for value, row in rows
        ]
        heads = [plain(target), *map(metric_label, evaluation.metrics), "Training"]
        sections += [f"## Sweep over {plain(target)}", table(heads, cells)]
        if len(rows) > 1:
            from dssm_tf.reports.figures import draw_curves

            curves = {
                metric_label(metric): [means_by_system[row.name][i]["mean"] for _, row in rows]
                for i, metric in enumerate(evaluation.metrics)
                if metric in evaluation.compared_metrics
            }
            ticks = [value for value, _ in rows]
            figures[f"sweep{number}"] = draw_curves(f"Sweep over {target}", curves, target, ticks)
            sections.append(f"![Means over {plain(target)}](sweep{number}.svg)")
    return sections, figures


def _first_titles(evaluation: Evaluation) -> list[str]:
    """Grades of first titles, and a cross table of the best system and its reference.

    Like fig. 3 and table 7 of Shen et al. 2014.
    """
    first = first_title_labels(evaluation.task, evaluation.runs)
    grades = labels(evaluation.task, first)
    rows = [
        [
            plain(name),
            *(f"{100 * query_labels.count(grade) / len(query_labels):.1f} %" for grade in grades),
        ]
        for name, query_labels in first.items()
    ]
    sections = ["## Grade of the first title", table(["System", *grades], rows)]
    best = max(first, key=lambda name: evaluation.mean(name, deciding_metric(evaluation)))
    if other := reference_system(evaluation, best):
        counts = Counter(zip(first[best], first[other], strict=True))
        a, b = plain(best), plain(other)
        body = [[f"{a}: {i}", *(str(counts[i, j]) for j in grades)] for i in grades]
        sections.append(f"Queries by the grade of the first title of {a} (down) and {b} (across):")
        sections.append(table(["", *(f"{b}: {grade}" for grade in grades)], body))
    return sections


def _lengths(evaluation: Evaluation) -> list[str]:
    """Lengths of queries and titles in words (Shen et al. 2014, fig. 2)."""
    queries = lengths(evaluation.task.queries)
    titles = lengths(dict.fromkeys(evaluation.task.titles))
    means = [
        sum(words * fraction for words, fraction in fractions.items())
        for fractions in (queries, titles)
    ]
    rows = [
        [str(words), *(f"{100 * fractions.get(words, 0):.1f} %" for fractions in (queries, titles))]
        for words in sorted(queries | titles)
    ]
    return [
        "## Lengths of queries and titles",
        f"Mean length: queries {means[0]:.2f} words, titles {means[1]:.2f} words.",
        table(["Words", "Queries", "Titles"], rows),
    ]
