"""Titles with their clicks: `titles.tsv`, the small table that a run keeps of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dssm_tf.tables.cells import count
from dssm_tf.tables.writer import write_table

TITLES = "titles.tsv"


class Title(NamedTuple):
    """A title of the log or the corpus: its text and how often the training part clicked it.

    Args:
        text: as logged, or as the corpus has it.
        clicks: clicks in the training part; 0 for a title of the validation part or the corpus
            only.
        queries: (query, title) pairs of the training part that hold it.
    """

    text: str
    clicks: int = 0
    queries: int = 0


def load_titles(directory: Path) -> list[Title]:
    """The titles of a run, most clicked first, of which `check_run` has compared the file."""
    from dssm_tf.tables.reader import read_rows  # not before Arrow is needed

    columns = {"title": None, "clicks": count, "queries": count}
    return [Title(*row) for _, row in read_rows(Path(directory) / TITLES, columns)]


def save_titles(titles: Iterable[Title], path: Path) -> None:
    """Writes what `load_titles` reads, most clicked first, ties by text."""
    ranked = sorted(titles, key=lambda one: (-one.clicks, one.text))
    write_table(path, ("title", "clicks", "queries"), (map(str, one) for one in ranked))
