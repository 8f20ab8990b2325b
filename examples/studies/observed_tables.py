"""The tables and figures of `examples.studies.observations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from examples.studies import intervals as figures
from examples.studies.observed_quantities import over_seeds

Row = tuple[str, str, int, str, float]
"""Data set, system, seed, quantity, value."""

LENGTHS = (2, 4, 6, 8, 12)

# Spaces at the end make equal headings different keys; they are not printed.
TABLES: dict[str, dict[str, str]] = {
    "1a. Loss of the cosine without a word, and cells it changes: stop words, other words": {
        "lost: stop": "occlusion: stop words",
        "other": "occlusion: other words",
        "P(stop < other)": "occlusion: lower",
        "cells: stop": "cells changed: stop words",
        "other ": "cells changed: other words",
        "P(stop < other) ": "cells changed: lower",
    },
    "1b. Input gate, and values written into the cells": {
        "i(t): stop": "input gate: stop words",
        "other": "input gate: other words",
        "P(stop < other)": "input gate: lower",
        "of up to 4 letters": "input gate, short words: lower",
        "written: stop": "written: stop words",
        "other ": "written: other words",
        "P(stop < other) ": "written: lower",
        "of up to 4 letters ": "written, short words: lower",
    },
    "2. The first keyword of a query": {
        "queries with one": "keyword: queries with a keyword",
        "in the title": "keyword: in the title",
        "a word by chance": "keyword: in the title by chance",
    },
    "3. Topics of cells": {
        "purity": "topics: purity",
        "shuffled labels": "topics: shuffled",
        "other coordinates": "topics, other coordinates: purity",
    },
    "4a. Fraction of the first word in the change of the last state without a word": {
        f"of {length} words": f"first word of {length}: influence" for length in LENGTHS
    },
    "4b. Fraction of the first word that the cells keep": {
        f"of {length} words": f"first word of {length}: retained in the cells" for length in LENGTHS
    },
    "4c. Scores": {
        "clicked title first": "clicked title first",
        "clicked": "cosine: clicked title",
        "other title": "cosine: title of another query",
        "grade 0 to .67": "cosine: graded 0 to .67",
        "1 to 1.5": "cosine: graded 1 to 1.5",
        "over": "cosine: graded over",
        "Kendall": "grades: Kendall",
        "Spearman": "grades: Spearman",
    },
    "5a. Agreement with occlusion, Kendall's tau": {
        "Shapley": "Shapley values: Kendall",
        "cells changed": "cells changed: Kendall",
        "i(t)": "input gate: Kendall",
        "written": "written: Kendall",
        "top neurons": "top neurons won: Kendall",
        "all neurons": "all neurons won: Kendall",
    },
    "5b. Agreement with occlusion, Spearman's rho": {
        "Shapley": "Shapley values: Spearman",
        "cells changed": "cells changed: Spearman",
        "i(t)": "input gate: Spearman",
        "written": "written: Spearman",
        "top neurons": "top neurons won: Spearman",
        "all neurons": "all neurons won: Spearman",
    },
    "6. Seconds to explain a pair": {
        "median": "explain: median seconds",
        "most": "explain: most seconds",
        "CPU, median": "explain: median CPU seconds",
        "CPU, most": "explain: most CPU seconds",
    },
}
COMPARED = ("input gate", "written", "cells changed", "occlusion")


def show(rows: Sequence[Row], out: Path, stream: IO[str]) -> None:
    """Prints the tables as Markdown and draws the figures."""
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for name, system, _, quantity, value in rows:
        values.setdefault((name, system), {}).setdefault(quantity, []).append(value)
    for title, columns in TABLES.items():
        lines = []
        for (name, system), quantities in values.items():
            cells = [format_cell(quantities.get(quantity, [])) for quantity in columns.values()]
            if any(cells):
                lines.append([name, system, *cells])
        used = [i for i in range(len(columns) + 2) if any(line[i] for line in lines)]
        heads = ["set", "system", *map(str.strip, columns)]
        stream.write(f"\n{title}\n\n")
        for line in (heads, ["---"] * len(heads), *lines):
            stream.write(f"| {' | '.join(line[i] for i in used)} |\n")
    draw(values, out)


def format_cell(values: Sequence[float]) -> str:
    """The mean and half the width of its interval, as `.152 ± .010`; empty without values."""
    mean, half_width = over_seeds(values)
    if np.isnan(mean):
        return ""
    numbers = [f"{n:.3f}".replace("0.", ".", 1) for n in (mean, half_width) if np.isfinite(n)]
    return " ± ".join(numbers)


def draw(values: Mapping[tuple[str, str], Mapping[str, Sequence[float]]], out: Path) -> None:
    """Draws the first word's influence by length, and the ratio of stop words to other words."""
    influences: dict[str, dict[str, dict[object, tuple[float, float]]]] = {}
    ratios: dict[str, dict[str, dict[object, tuple[float, float]]]] = {}
    for (name, system), quantities in values.items():
        line: dict[object, tuple[float, float]] = {
            length: over_seeds(quantities[quantity])
            for length in LENGTHS
            if (quantity := f"first word of {length}: influence") in quantities
        }
        if " " not in system or system == "lstm untrained":
            influences.setdefault(name, {})[system] = line
        if " " not in system:
            ratios.setdefault(name, {})[system] = {
                quantity: over_seeds(
                    np.divide(
                        quantities[f"{quantity}: stop words"],
                        quantities[f"{quantity}: other words"],
                    )
                )
                for quantity in COMPARED
                if f"{quantity}: stop words" in quantities
            }
    equal = "equal influence"
    for panel in influences.values():
        lengths = max(panel.values(), key=len)
        panel[equal] = {length: (1 / float(str(length)), 0.0) for length in lengths}
    for panels, name, x, y in (
        (influences, "first_word.png", "words", "fraction of the first word in the change"),
        (ratios, "stop_words.png", "", "stop words / other words"),
    ):
        figures.draw_intervals(panels, out / name, x, y)
