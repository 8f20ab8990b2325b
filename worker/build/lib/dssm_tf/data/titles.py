"""Titles with their clicks: `titles.tsv`, the small table that a run keeps of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.files import atomic_write

TITLES = "titles.tsv"


class Title(NamedTuple):
    """A title of the log or the corpus: its text and how often the training part clicked it.

    Args:
        text: the title as logged, or as the corpus has it.
        clicks: clicks in the training part; 0 for a title of the validation part or the corpus
            only.
        queries: (query, title) pairs of the training part that hold it.
    """

    text: str
    clicks: int = 0
    queries: int = 0


def load_titles(directory: Path) -> list[Title]:
    """The titles of a run, most clicked first, of which `check_run` has compared the file."""
    rows = (Path(directory) / TITLES).read_text("utf-8").split("\n")[1:-1]
    split = (row.split("\t") for row in rows)
    return [Title(text, int(clicks), int(queries)) for text, clicks, queries in split]


def save_titles(titles: Iterable[Title], path: Path) -> None:
    """Writes what `load_titles` reads, most clicked first, ties by text."""
    with atomic_write(path) as file:
        file.write("title\tclicks\tqueries\n")
        for text, clicks, queries in sorted(titles, key=lambda one: (-one.clicks, one.text)):
            file.write(f"{text}\t{clicks}\t{queries}\n")
