"""What every experiment shows and writes: a bar, tables, results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.progress import Task, progress_of
from dssm_tf.dse.pretraining import Told

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


class Run:
    """An experiment while it runs.

    Args:
        directory: where it writes its files.
        bar: over the models it fits.

    Attributes:
        results: what `results.json` holds, once `finish` was called.
    """

    def __init__(self, directory: Path, bar: Task) -> None:
        self.directory = directory
        self.results: dict[str, Any] = {}
        self.tables: Sequence[ResultTable] = ()
        self.preface = ""
        self._bar = bar
        self._started = monotonic()

    def told(self, name: str) -> Told:
        """What to tell about something that begins now, by its name."""
        return lambda state: self._bar.update(self._bar.done, f"{name}: {state}")

    def fitted(self) -> None:
        """Says that one more model is fitted."""
        self._bar.advance()

    def finish(
        self, results: Mapping[str, Any], tables: Sequence[ResultTable], preface: str
    ) -> None:
        """Writes `results.json` and `tables.md`.

        Args:
            results: what JSON can hold; the seconds it took are added.
            tables: the same numbers, as the paper has them.
            preface: what they are, above the tables.
        """
        seconds = round(monotonic() - self._started, 1)
        self.results = {**results, "seconds": seconds}
        self.tables = tables
        quick = ", a tenth of the training (--quick)" if results["quick"] else ""
        self.preface = f"{preface} {seconds:.0f} s{quick}."
        with atomic_write(self.directory / RESULTS) as file:
            json.dump(self.results, file, indent=1)
        with atomic_write(self.directory / TABLES) as file:
            file.write(f"{self.preface}\n\n" + "\n".join(table.markdown() for table in tables))


@contextmanager
def experiment(out: Path | str, console: Console | None, fits: int) -> Iterator[Run]:
    """Makes the directory of an experiment whole or not at all, and prints its tables.

    Args:
        out: directory to write, new.
        console: where to print; None is silent.
        fits: models it fits.
    """
    console = console or Console(quiet=True)
    with atomic_directory(out) as directory, progress_of("fits", fits, console, "done") as bar:
        run = Run(directory, bar)
        yield run
    for table in run.tables:
        table.print(console)
    console.print(run.preface, highlight=False)
    console.print(f"{out}: {TABLES}, {RESULTS}, figures")


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
