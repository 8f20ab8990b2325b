"""What every experiment shows and writes: a bar, tables, results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.progress import Task, progress_of
from dssm_tf.dse.pretraining import Told

_RESULTS = "results.json"
TABLES = "tables.md"


class Run:
    """An experiment while it runs.

    Args:
        directory: where it writes its files.
        bar: over the models it fits.

    Attributes:
        results: what `results.json` holds, once `finish` was called.
        text: what `tables.md` holds.
    """

    def __init__(self, directory: Path, bar: Task) -> None:
        self.directory = directory
        self.results: dict[str, Any] = {}
        self.text = ""
        self._bar = bar
        self._started = monotonic()

    def told(self, name: str) -> Told:
        """What to tell about something that begins now, by its name."""
        return lambda state: self._bar.update(self._bar.done, f"{name}: {state}")

    def fitted(self) -> None:
        """Says that one more model is fitted."""
        self._bar.advance()

    def finish(self, results: Mapping[str, Any], tables: Sequence[str], preface: str) -> None:
        """Writes `results.json` and `tables.md`.

        Args:
            results: what JSON can hold; the seconds it took are added.
            tables: the same numbers, as the paper has them, in Markdown.
            preface: what they are, above the tables.
        """
        seconds = round(monotonic() - self._started, 1)
        self.results = {**results, "seconds": seconds}
        quick = " (--quick)" if results["quick"] else ""
        self.text = "\n".join([f"{preface} {seconds:.0f} s{quick}.\n", *tables])
        with atomic_write(self.directory / _RESULTS) as file:
            json.dump(self.results, file, indent=1)
        with atomic_write(self.directory / TABLES) as file:
            file.write(self.text)


@contextmanager
def experiment(out: Path | str, console: Console | None, fits: int) -> Iterator[Run]:
    """Makes the directory of an experiment, whole or not at all, and prints its tables.

    Args:
        out: directory to write, new.
        console: where to print; None is silent.
        fits: models it fits.
    """
    console = console or Console(quiet=True)
    with atomic_directory(out) as directory, progress_of("fits", fits, console, "done") as bar:
        run = Run(directory, bar)
        yield run
    console.print(Markdown(run.text))
    console.print(f"{out}: {TABLES}, {_RESULTS}, figures")


def markdown_table(title: str, header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table below its title, in Markdown."""
    heads, *cells = ("| " + " | ".join(row) + " |" for row in (header, *rows))
    return "\n".join([f"**{title}**", "", heads, "|" + "---|" * len(header), *cells]) + "\n"


def per_cent(loss: float | None) -> str:
    """A rank loss as the paper prints it.

    >>> per_cent(0.637), per_cent(None)
    ('0.64', '-')
    """
    return "-" if loss is None else f"{loss:.2f}"


def words_table(neighbours: Mapping[str, Sequence[str]]) -> str:
    """Table 2 of the paper: words and their nearest ones."""
    return markdown_table(
        "Table 2: nearest words in DSE's first layer",
        ("word", "5 nearest neighbours"),
        ((word, " ".join(near)) for word, near in neighbours.items()),
    )
