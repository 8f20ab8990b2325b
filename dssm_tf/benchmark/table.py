"""The table in three dresses: terminal, Markdown, LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dssm_tf.benchmark.description import mean_length
from dssm_tf.benchmark.result import BenchmarkResult, Row, spread
from dssm_tf.evaluation.evaluation import metric_label

COST_HEADS = ("Training", "Parameters", "Bytes", "Texts/s")
_WIDE = 110  # columns of a terminal that hold quality and cost side by side
_MOST_WORDS = 20  # longer texts share a row of the histogram


def print_tables(result: BenchmarkResult, console: Console) -> None:
    """Shows the table, what failed, what was chosen, and the protocol.

    On a narrow terminal the costs stand in a table of their own.
    """
    if console.width >= _WIDE:
        console.print(_terminal_table(result, metrics=True, costs=True))
    else:
        console.print(_terminal_table(result, metrics=True, costs=False))
        console.print(_terminal_table(result, metrics=False, costs=True))
    if result.splits_by_seen:
        console.print(_new_queries_line(result), highlight=False, markup=False)
    for line in [*_failures(result), *_notes(result)]:
        console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
    for line in _choices(result):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for line in result.protocol():
        console.print(line, style="dim", highlight=False, markup=False)


def _terminal_table(result: BenchmarkResult, *, metrics: bool, costs: bool) -> Table:
    table = Table(header_style="bold", padding=(0, 1, 0, 0), box=SIMPLE_HEAD)
    table.add_column("System", overflow="fold")
    heads = [metric_label(metric) for metric in result.metrics] if metrics else []
    for head in [*heads, *(COST_HEADS if costs else ())]:
        table.add_column(head, justify="right", no_wrap=True)
    best = _best(result)
    for row in result.rows:
        cells = [f"{escape(row.name)} {result.mark(row.name)}".strip()]
        if not row.seeds:
            table.add_row(*cells, "[red]failed[/]")
            continue
        for metric in result.metrics if metrics else ():
            mean, deviation, marks = _cell(result, row, metric)
            shown = f"[bold green]{mean}[/]" if row.name in best[metric] else mean
            cells.append(f"{shown}{marks}[dim]{deviation}[/]")
        table.add_row(*cells, *(_costs(row) if costs else ()))
    return table


def markdown(result: BenchmarkResult, cross: tuple[str, str] | None = None) -> str:
    """`table.md`: the table and the papers' further tables.

    Args:
        result: what to show.
        cross: the two systems of the cross table of first titles; by default the best
            system and the first that superscripts are about.
    """
    best = _best(result)
    rows = []
    for row in result.rows:
        name = _md(f"{row.name} {result.mark(row.name)}".strip())
        if not row.seeds:
            rows.append([name, f"failed: {_md(row.error or '')}"])
            continue
        cells = [name]
        for metric in result.metrics:
            mean, deviation, marks = _cell(result, row, metric)
            bold = "**" if row.name in best[metric] else ""
            cells.append(f"{bold}{mean}{bold}{marks}{deviation}")
        rows.append([*cells, *_costs(row)])
    heads = ["System", *map(metric_label, result.metrics), *COST_HEADS]
    parts = ["# Benchmark", _md_table(heads, rows), " ".join(result.protocol())]
    if remarks := [*_failures(result), *_notes(result)]:
        parts.append(_md_list(remarks))
    if result.splits_by_seen:
        parts += ["## Queries that the log does not hold", _md_new_queries(result)]
    if choices := _choices(result):
        parts += ["## What cross validation chose", _md_list(choices)]
    parts += _md_sweeps(result)
    parts += _md_first_titles(result, cross)
    parts += _md_lengths(result)
    return "\n\n".join(parts) + "\n"


def latex(result: BenchmarkResult) -> str:
    """`table.tex`: a tabular for booktabs, superscripts as in the papers."""
    best = _best(result)
    columns = len(result.metrics)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'r' * (columns + len(COST_HEADS))}}}",
        "\\toprule",
        " & ".join(["System", *map(metric_label, result.metrics), *COST_HEADS]) + " \\\\",
        "\\midrule",
    ]
    for row in result.rows:
        mark = _tex_marks(result, [row.name] if result.mark(row.name) else [])
        name = _tex(row.name) + mark
        if not row.seeds:
            lines.append(f"{name} & \\multicolumn{{{columns}}}{{l}}{{failed}} &&&& \\\\")
            continue
        cells = [name]
        for metric in result.metrics:
            mean, deviation, _ = _cell(result, row, metric)
            shown = f"\\textbf{{{mean}}}" if row.name in best[metric] else mean
            beaten = _tex_marks(result, result.beaten(row.name, metric))
            cells.append(shown + beaten + deviation.replace(" ±", " $\\pm$ "))
        costs = [_tex(cost) for cost in _costs(row)]
        lines.append(" & ".join([*cells, *costs]) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    lines += [f"% {sentence}" for sentence in result.protocol()]
    return "\n".join(lines) + "\n"


def size(number: float | None) -> str:
    """A count in three digits or so.

    >>> size(1234567), size(971100), size(950), size(None)
    ('1.2M', '971K', '950', '-')
    """
    if number is None:
        return "-"
    for letter in ("", "K", "M"):
        if number < 1000:
            return f"{number:.{1 if letter and number < 100 else 0}f}{letter}"
        number /= 1000
    return f"{number:.1f}G"


def seconds(number: float | None) -> str:
    """A time.

    >>> seconds(0.034), seconds(8.2), seconds(75), seconds(7300)
    ('0.03 s', '8.2 s', '75 s', '122 min')
    """
    if number is None:
        return "-"
    if number >= 600:
        return f"{number / 60:.0f} min"
    return f"{number:.0f} s" if number >= 10 else f"{number:.{1 if number >= 1 else 2}f} s"


def _costs(row: Row) -> list[str]:
    return [
        seconds(row.cost("training_seconds")),
        size(row.cost("parameters")),
        size(row.cost("bytes")),
        size(row.cost("texts_per_second")),
    ]


def _cell(result: BenchmarkResult, row: Row, metric: str) -> tuple[str, str, str]:
    """Mean, spread over seeds, raised letters."""
    means = row.means(metric)
    deviation = spread(means)
    marks = "".join(result.mark(other) for other in result.beaten(row.name, metric))
    return (
        f"{np.mean(means):.3f}",
        "" if deviation is None else f" ±{deviation:.3f}".replace("0.", "."),
        marks,
    )


def _best(result: BenchmarkResult) -> dict[str, list[str]]:
    """By metric, the rows with the highest mean as shown; none in a table of one row."""
    rows = result.measured_rows
    best = {}
    for metric in result.metrics:
        shown = {row.name: f"{np.mean(row.means(metric)):.3f}" for row in rows}
        top = max(shown.values())
        best[metric] = [name for name, one in shown.items() if one == top and len(rows) > 1]
    return best


def _failures(result: BenchmarkResult) -> list[str]:
    return [
        f"{row.name} failed{' for some seeds' if row.seeds else ''}: {row.error}"
        for row in result.rows
        if row.error
    ]


def _notes(result: BenchmarkResult) -> list[str]:
    return [f"{row.name} {note}." for row in result.rows for note in row.notes]


def _choices(result: BenchmarkResult) -> list[str]:
    """One line a row for which something was chosen; equal choices of seeds once."""
    lines = []
    for row in result.rows:
        shown: dict[str, list[str]] = {}
        for one in row.seeds:
            chosen = one.about.get("chosen")
            if chosen is not None:
                shown.setdefault(_choice(chosen), []).append(str(one.seed))
        parts = [
            text if len(shown) == 1 else f"{text} (seed {', '.join(seeds)})"
            for text, seeds in shown.items()
        ]
        if parts:
            lines.append(f"{row.name} chose {'; '.join(parts)}")
    return lines


def _choice(chosen: str | Sequence[dict[str, Any]]) -> str:
    if isinstance(chosen, str):
        return chosen
    texts = [_values(half["values"]) for half in chosen]
    if len(set(texts)) == 1:
        return texts[0]
    return " and ".join(
        f"{text} for {half['reported_on']}" for text, half in zip(texts, chosen, strict=True)
    )


def _values(values: dict[str, Any]) -> str:
    parts = []
    for name, value in values.items():
        if isinstance(value, dict):
            parts += [f"{value[key]:g} {key}" for key in value]
        else:
            parts.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(parts)


def _new_queries_line(result: BenchmarkResult) -> str:
    new = result.new_queries()
    metric = result.metrics[-1]
    means = ", ".join(
        f"{row.name} {np.mean(row.means(metric, new)):.3f}" for row in result.measured_rows
    )
    return f"{metric_label(metric)} on the {int(new.sum()):,} queries not in the log: {means}"


def _md_new_queries(result: BenchmarkResult) -> str:
    new = result.new_queries()
    rows = []
    for row in result.measured_rows:
        cells = []
        for metric in result.metrics:
            means = row.means(metric, new)
            deviation = spread(means)
            shown = f"{np.mean(means):.3f}"
            cells.append(shown if deviation is None else f"{shown} ±{deviation:.3f}")
        rows.append([_md(row.name), *cells])
    table = _md_table(["System", *map(metric_label, result.metrics)], rows)
    return f"{int(new.sum()):,} queries.\n\n{table}"


def _md_sweeps(result: BenchmarkResult) -> list[str]:
    """A table a swept key: NDCG against its values (P16 table IV, S14 tables 5 and 6)."""
    swept: dict[str, list[Row]] = {}
    for row in result.measured_rows:
        if row.sweep:
            swept.setdefault(row.name.split("=")[0], []).append(row)
    parts = []
    for target, rows in swept.items():
        cells = [
            [
                f"{row.sweep[1] if row.sweep else ''}",
                *(f"{np.mean(row.means(metric)):.3f}" for metric in result.metrics),
                seconds(row.cost("training_seconds")),
            ]
            for row in rows
        ]
        heads = [target, *map(metric_label, result.metrics), "Training"]
        parts += [f"## Sweep over {target}", _md_table(heads, cells)]
    return parts


def _md_first_titles(result: BenchmarkResult, cross: tuple[str, str] | None) -> list[str]:
    labels = result.description.labels
    total = result.evaluation.measured_queries
    rows = [
        [_md(name), *(f"{100 * counts[label] / total:.1f} %" for label in labels)]
        for name, counts in result.description.top_1.items()
    ]
    parts = ["## Grade of the first title", _md_table(["System", *labels], rows)]
    pair = cross or _default_cross(result)
    if pair:
        a, b = pair
        counts = result.description.cross_table(a, b)
        body = [
            [f"{_md(a)}: {label}", *map(str, row)]
            for label, row in zip(labels, counts, strict=True)
        ]
        heads = ["", *(f"{_md(b)}: {label}" for label in labels)]
        text = f"Queries by the grade of the first title of {_md(a)} (down) and {_md(b)} (across):"
        parts += [text, _md_table(heads, body)]
    return parts


def _default_cross(result: BenchmarkResult) -> tuple[str, str] | None:
    """The best system and the first reference that is another one."""
    metric = result.metrics[0]
    rows = sorted(result.measured_rows, key=lambda row: -float(np.mean(row.means(metric))))
    references = [*result.against, *(row.name for row in rows)]
    other = next((name for name in references if rows and name != rows[0].name), None)
    return (rows[0].name, other) if other else None


def _md_lengths(result: BenchmarkResult) -> list[str]:
    description = result.description
    columns = (description.query_lengths, description.title_lengths)
    most = min(_MOST_WORDS, max(max(column, default=0) for column in columns))
    rows = []
    for number in range(most + 1):
        counts = [
            sum(c for n, c in column.items() if n == number or (number == most and n > most))
            for column in columns
        ]
        more = " or more" if number == _MOST_WORDS else ""
        shares = [100 * c / sum(column.values()) for c, column in zip(counts, columns, strict=True)]
        if any(counts):
            rows.append([f"{number}{more}", *(f"{share:.1f} %" for share in shares)])
    means = [mean_length(column) for column in columns]
    text = f"Mean length: queries {means[0]:.2f} words, titles {means[1]:.2f} words."
    return [
        "## Lengths of queries and titles",
        text,
        _md_table(["Words", "Queries", "Titles"], rows),
    ]


def _md_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        padded = [*cells, *[""] * (len(heads) - len(cells))]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(heads), "|---" * len(heads) + "|", *map(line, rows)])


def _md_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_md(line)}" for line in lines)


def _md(text: str) -> str:
    return re.sub(r"([|\\`*_\[\]<>])", r"\\\1", text)


def _tex_marks(result: BenchmarkResult, systems: Sequence[str]) -> str:
    letters = "".join(_tex_letter(result.against.index(system)) for system in systems)
    return f"$^{{{letters}}}$" if letters else ""


def _tex_letter(place: int) -> str:
    greek = ("\\alpha", "\\beta", "\\gamma", "\\delta", "\\epsilon", "\\zeta", "\\eta", "\\theta")
    return greek[place] if place < len(greek) else f"({place + 1})"


_TEX = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)
