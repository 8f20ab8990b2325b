"""Tables of the DSE experiments, on the terminal and in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from dssm_tf.common.files import atomic_write

RESULTS = "results.json"
TABLES = "tables.md"


class ResultTable(NamedTuple):
    """A table of the paper's layout.

    Args:
        title: what the numbers are.
        header: names of the columns.
        rows: a name and the numbers, None where nothing was measured.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As a Markdown table under its title."""
        lines = [
            f"**{self.title}**",
            "",
            "| " + " | ".join(self.header) + " |",
            "|" + "---|" * len(self.header),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def print(self, console: Console) -> None:
        """As a table on the terminal, below its title, which may be wider."""
        console.print(self.title, highlight=False)
        table = Table(*self.header)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)


def per_cent(loss: float | None) -> str:
    """A rank loss as the paper prints it.

    >>> per_cent(0.637), per_cent(None)
    ('0.64', '-')
    """
    return "-" if loss is None else f"{loss:.2f}"


def words_table(neighbours: Mapping[str, Sequence[str]]) -> ResultTable:
    """Table 2 of the paper: words and their nearest ones."""
    return ResultTable(
        "Table 2: nearest words in DSE's first layer",
        ("word", "5 nearest neighbours"),
        tuple((word, " ".join(near)) for word, near in neighbours.items()),
    )


def write_report(
    directory: Path, results: Mapping[str, Any], tables: Sequence[ResultTable], preface: str
) -> None:
    """Writes `results.json` and `tables.md`."""
    with atomic_write(directory / RESULTS) as file:
        json.dump(results, file, indent=1)
    with atomic_write(directory / TABLES) as file:
        file.write(preface + "\n\n" + "\n".join(table.markdown() for table in tables))
