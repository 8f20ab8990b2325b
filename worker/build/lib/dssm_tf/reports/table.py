"""The table of systems in three dresses: terminal, Markdown, LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

from dssm_tf.common.terminal import note, print_table
from dssm_tf.evaluation.description import mean_length
from dssm_tf.evaluation.evaluation import Evaluation, Part, Row
from dssm_tf.evaluation.metrics import metric_label
from dssm_tf.reports.wording import (
    COSTS,
    PARTS,
    Cell,
    about_part,
    cautions,
    cells_of,
    cost,
    cost_heads,
    mark,
    named,
    protocol,
    sentence,
    title,
)

_MOST_WORDS = 20  # longer texts share a row of the histogram


def print_tables(evaluation: Evaluation, console: Console, written: str = "") -> None:
    """Shows the protocol, what was chosen, what failed, and last the tables.

    Args:
        evaluation: what to show.
        console: where.
        written: a line that says what was written; none if empty.
    """
    for line in protocol(evaluation):
        note(console, line, "dim")
    for line in _choices(evaluation):
        note(console, line)
    for line in [*cautions(evaluation), *_failures(evaluation), *_notes(evaluation)]:
        note(console, line, "yellow")
    if written:  # whole, to be copied
        console.print(written, highlight=False, markup=False, soft_wrap=True)
    if evaluation.parts:
        _print_parts(evaluation, console)
    _print_means(evaluation, console)


def _print_means(evaluation: Evaluation, console: Console) -> None:
    heads = ["System", *map(metric_label, evaluation.metrics), *cost_heads(evaluation)]
    means = cells_of(evaluation)
    rows = []
    for row in evaluation.rows:
        cells = [escape(named(evaluation, row.name))]
        if not row.seeds:
            rows.append([*cells, "[red]failed[/]"])
            continue
        for cell in means[row.name]:
            shown = f"[bold green]{cell.shown}[/]" if cell.best else cell.shown
            marks = _marks(evaluation, cell)
            cells.append(f"{shown}{marks}[dim]{_deviation(cell)}\n{cell.interval}[/]")
        rows.append([*cells, *_costs(evaluation, row)])
    print_table(console, heads, rows)


def _print_parts(evaluation: Evaluation, console: Console) -> None:
    """The deciding metric on each part of the queries."""
    metric, parts = evaluation.deciding_metric, evaluation.parts
    short = {"known": "in the log", "new": "not in the log", "traffic": "by traffic"}
    heads = [metric_label(metric), *(f"{short[part.name]} ({part.queries:,})" for part in parts)]
    means = [cells_of(evaluation, part) for part in parts]
    place = evaluation.metrics.index(metric)
    rows = []
    for name in evaluation.systems:
        cells = [one[name][place] for one in means]
        shown = (f"[bold green]{one.shown}[/]" if one.best else one.shown for one in cells)
        both = (f"{a} [dim]{one.interval}[/]" for a, one in zip(shown, cells, strict=True))
        rows.append([escape(name), *both])
    print_table(console, heads, rows)


def markdown(evaluation: Evaluation, cross: tuple[str, str] | None = None) -> str:
    """`table.md`: the table and the papers' further tables.

    Args:
        evaluation: what to show.
        cross: the two systems of the cross table of first titles; by default the best
            system and the first that superscripts are about.
    """
    parts = [f"# {title(evaluation)}", _md_means(evaluation), " ".join(protocol(evaluation))]
    if remarks := [*cautions(evaluation), *_failures(evaluation), *_notes(evaluation)]:
        parts.append(_md_list(remarks))
    for part in evaluation.parts:
        parts += [f"## {PARTS[part.name]}", about_part(evaluation, part)]
        parts.append(_md_means(evaluation, part))
    if choices := _choices(evaluation):
        parts += ["## What cross validation chose", _md_list(choices)]
    for one in further_tables(evaluation, cross):
        rows = [list(map(_md, row)) for row in one.rows]
        shown = [
            one.title and f"## {one.title}",
            _md(one.text),
            _md_table(list(map(_md, one.heads)), rows),
        ]
        parts += filter(None, shown)
    return "\n\n".join(parts) + "\n"


def _md_means(evaluation: Evaluation, part: Part | None = None) -> str:
    """Systems by metrics and costs; of a part of the queries, the means alone."""
    whole = part is None
    means = cells_of(evaluation, part)
    rows = []
    for row in evaluation.rows if whole else evaluation.measured_rows:
        cells = [_md(named(evaluation, row.name) if whole else row.name)]
        if not row.seeds:
            rows.append([*cells, f"failed: {_md(row.error or '')}"])
            continue
        for cell in means[row.name]:
            bold = "**" if cell.best else ""
            marks = _marks(evaluation, cell)
            cells.append(f"{bold}{cell.shown}{bold}{marks}{_deviation(cell)} ({cell.interval})")
        rows.append([*cells, *(_costs(evaluation, row) if whole else ())])
    costs = cost_heads(evaluation) if whole else []
    return _md_table(["System", *map(metric_label, evaluation.metrics), *costs], rows)


def latex(evaluation: Evaluation) -> str:
    """`table.tex`: a tabular for booktabs, superscripts as in the papers."""
    heads = ["System", *map(metric_label, evaluation.metrics), *cost_heads(evaluation)]
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
        "\\midrule",
    ]
    means = cells_of(evaluation)
    for row in evaluation.rows:
        name = _tex(row.name) + _tex_marks(evaluation, [row.name])
        if not row.seeds:
            lines.append(f"{name} & \\multicolumn{{{len(heads) - 1}}}{{l}}{{failed}} \\\\")
            continue
        cells = [name]
        for cell in means[row.name]:
            shown = f"\\textbf{{{cell.shown}}}" if cell.best else cell.shown
            deviation = _deviation(cell).replace(" ±", " $\\pm$ ")
            cells.append(shown + _tex_marks(evaluation, cell.beaten) + deviation)
        cells += map(_tex, _costs(evaluation, row))
        lines.append(" & ".join(cells) + " \\\\")
        intervals = (cell.interval.replace("-", "--") for cell in means[row.name])
        below = ["", *(f"{{\\footnotesize {one}}}" for one in intervals)]
        lines.append(" & ".join([*below, *[""] * (len(heads) - len(below))]) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    lines += [f"% {sentence}" for sentence in protocol(evaluation)]
    return "\n".join(lines) + "\n"


def _costs(evaluation: Evaluation, row: Row) -> list[str]:
    return [cost(name, row.cost(name)) for name in COSTS] if evaluation.costed else []


def _marks(evaluation: Evaluation, cell: Cell) -> str:
    return "".join(mark(evaluation, other) for other in cell.beaten)


def _deviation(cell: Cell) -> str:
    return "" if cell.spread is None else f" ±{cell.spread:.3f}".replace("0.", ".")


def _failures(evaluation: Evaluation) -> list[str]:
    return [
        f"{row.name} failed{' for some seeds' if row.seeds else ''}: {row.error}"
        for row in evaluation.rows
        if row.error
    ]


def _notes(evaluation: Evaluation) -> list[str]:
    return [sentence(f"{row.name} {note}") for row in evaluation.rows for note in row.notes]


def _choices(evaluation: Evaluation) -> list[str]:
    """One line a row for which something was chosen; equal choices of seeds once."""
    lines = []
    for row in evaluation.rows:
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


class FurtherTable(NamedTuple):
    """A table beside that of all systems.

    Attributes:
        title: its heading; empty if it stands under that of the one before.
        text: above it.
        heads: of the columns.
        rows: of cells, the first of which is the row's head.
    """

    title: str
    text: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def further_tables(
    evaluation: Evaluation, cross: tuple[str, str] | None = None
) -> list[FurtherTable]:
    """Sweeps (P16 table IV, S14 tables 5 and 6), grades of first titles, lengths of texts.

    Args:
        evaluation: what to show.
        cross: the two systems of the cross table of first titles; by default the best
            system and the first that superscripts are about.
    """
    return [*_sweeps(evaluation), *_first_titles(evaluation, cross), _lengths(evaluation)]


def _sweeps(evaluation: Evaluation) -> list[FurtherTable]:
    means = cells_of(evaluation)
    tables = []
    for target, rows in evaluation.sweeps.items():
        cells = [
            [
                str(value),
                *(f"{cell.shown} ({cell.interval})" for cell in means[row.name]),
                cost("training_seconds", row.cost("training_seconds")),
            ]
            for value, row in rows
        ]
        heads = [target, *map(metric_label, evaluation.metrics), "Training"]
        tables.append(FurtherTable(f"Sweep over {target}", "", heads, cells))
    return tables


def _first_titles(evaluation: Evaluation, cross: tuple[str, str] | None) -> list[FurtherTable]:
    labels = evaluation.description.labels
    total = evaluation.measured_queries
    rows = [
        [name, *(f"{100 * counts[label] / total:.1f} %" for label in labels)]
        for name, counts in evaluation.description.top_1.items()
    ]
    tables = [FurtherTable("Grade of the first title", "", ["System", *labels], rows)]
    pair = cross if set(cross or ()) <= set(evaluation.systems) else None  # one may have failed
    if pair := pair or _default_cross(evaluation):
        a, b = pair
        counts = evaluation.description.cross_table(a, b)
        body = [
            [f"{a}: {label}", *map(str, row)] for label, row in zip(labels, counts, strict=True)
        ]
        text = f"Queries by the grade of the first title of {a} (down) and {b} (across):"
        tables.append(FurtherTable("", text, ["", *(f"{b}: {label}" for label in labels)], body))
    return tables


def _default_cross(evaluation: Evaluation) -> tuple[str, str] | None:
    """The best system and the first reference that is another one."""
    metric = evaluation.metrics[0]
    ranked = sorted(evaluation.systems, key=lambda name: -evaluation.mean(name, metric))
    other = evaluation.reference(ranked[0]) or next(iter(ranked[1:]), None)
    return (ranked[0], other) if other else None


def _lengths(evaluation: Evaluation) -> FurtherTable:
    description = evaluation.description
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
    heads = ["Words", "Queries", "Titles"]
    return FurtherTable("Lengths of queries and titles", text, heads, rows)


def _md_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        padded = [*cells, *[""] * (len(heads) - len(cells))]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(heads), "|---" * len(heads) + "|", *map(line, rows)])


def _md_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_md(line)}" for line in lines)


def _md(text: str) -> str:
    return re.sub(r"([|\\`*_\[\]<>])", r"\\\1", text)


def _tex_marks(evaluation: Evaluation, systems: Sequence[str]) -> str:
    places = [evaluation.against.index(name) for name in systems if name in evaluation.against]
    letters = "".join(map(_tex_letter, places))
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
