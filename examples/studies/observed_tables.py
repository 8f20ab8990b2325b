"""Tables and figures of `examples.studies.observations`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from examples.studies import intervals as figures
from examples.studies.observed_quantities import over_seeds

Row = tuple[str, str, int, str, float]
"""Set, system, seed, quantity, value."""

LENGTHS = (2, 4, 6, 8, 12)

TABLES: dict[str, dict[str, str]] = {
    "1a. What the cosine loses without a word, and cells it moves: stop words, other words": {
        "lost: stop": "occlusion: stop words",
        "other": "occlusion: other words",
        "P(stop < other)": "occlusion: lower",
        "cells: stop": "cells moved: stop words",
        "other ": "cells moved: other words",
        "P(stop < other) ": "cells moved: lower",
    },
    "1b. Input gate, and what is written into the cells": {
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
        "queries with one": "keyword: queries that have one",
        "in the title": "keyword: in the title",
        "a word by chance": "keyword: in the title by chance",
    },
    "3. Topics of cells": {
        "purity": "topics: purity",
        "shuffled labels": "topics: shuffled",
        "other coordinates": "topics, turned: purity",
    },
    "4a. Share of the first word in what the last state loses without a word": {
        f"of {length} words": f"first word of {length}: influence" for length in LENGTHS
    },
    "4b. What the cells keep of the first word": {
        f"of {length} words": f"first word of {length}: kept in the cells" for length in LENGTHS
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
        "cells moved": "cells moved: Kendall",
        "i(t)": "input gate: Kendall",
        "written": "written: Kendall",
        "top neurons": "top neurons won: Kendall",
        "all neurons": "all neurons won: Kendall",
    },
    "5b. Agreement with occlusion, Spearman's rho": {
        "Shapley": "Shapley values: Spearman",
        "cells moved": "cells moved: Spearman",
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
BESIDE = ("input gate", "written", "cells moved", "occlusion")


def show(rows: Sequence[Row], out: Path, stream: IO[str]) -> None:
    """Prints the tables as Markdown and draws the figures."""
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for name, system, _, quantity, value in rows:
        values.setdefault((name, system), {}).setdefault(quantity, []).append(value)
    for title, columns in TABLES.items():
        lines = []
        for (name, system), found in values.items():
            cells = [number(found.get(quantity, [])) for quantity in columns.values()]
            if any(cells):
                lines.append([name, system, *cells])
        used = [i for i in range(len(columns) + 2) if any(line[i] for line in lines)]
        heads = ["set", "system", *map(str.strip, columns)]
        stream.write(f"\n{title}\n\n")
        for line in (heads, ["---"] * len(heads), *lines):
            stream.write(f"| {' | '.join(line[i] for i in used)} |\n")
    draw(values, out)


def number(values: Sequence[float]) -> str:
    """Mean and half the interval, as in `.152 ± .010`; empty for none."""
    mean, half = over_seeds(values)
    if np.isnan(mean):
        return ""
    shown = [f"{one:.3f}".replace("0.", ".", 1) for one in (mean, half) if np.isfinite(one)]
    return " ± ".join(shown)


def draw(values: Mapping[tuple[str, str], Mapping[str, Sequence[float]]], out: Path) -> None:
    """The first word's influence by length, and stop words beside other words."""
    influences: dict[str, dict[str, dict[object, tuple[float, float]]]] = {}
    shares: dict[str, dict[str, dict[object, tuple[float, float]]]] = {}
    for (name, system), found in values.items():
        line = {
            length: over_seeds(found[quantity])
            for length in LENGTHS
            if (quantity := f"first word of {length}: influence") in found
        }
        if " " not in system or system == "lstm untrained":
            influences.setdefault(name, {})[system] = dict(line)
        if " " not in system:
            shares.setdefault(name, {})[system] = {
                quantity: over_seeds(
                    np.divide(found[f"{quantity}: stop words"], found[f"{quantity}: other words"])
                )
                for quantity in BESIDE
                if f"{quantity}: stop words" in found
            }
    equal = "an equal share"
    for panel in influences.values():
        lengths = max(panel.values(), key=len)
        panel[equal] = {length: (1 / float(str(length)), 0.0) for length in lengths}
    for panels, name, x, y in (
        (influences, "first_word.png", "words", "share of the first word in the change"),
        (shares, "stop_words.png", "", "on stop words / on other words"),
    ):
        figures.with_intervals(panels, out / name, x, y)
