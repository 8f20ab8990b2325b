"""Titles with their clicks: `titles.tsv`, the small table that a run keeps of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.errors import UserError
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
    """The titles of a run, most clicked first; its columns are title, clicks and queries.

    Raises:
        UserError: the file is missing or a row is damaged.
    """
    path = Path(directory) / TITLES
    try:
        rows = path.read_text("utf-8").split("\n")[1:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); train the run again.") from None
    titles = []
    for number, row in enumerate(rows, start=2):
        try:
            text, clicks, queries = row.split("\t")
            titles.append(Title(text, int(clicks), int(queries)))
        except ValueError:
            raise UserError(
                f"{path}:{number} holds {row[:60]!r}; expected title, clicks, queries."
            ) from None
    return titles


def save_titles(titles: Iterable[Title], path: Path) -> None:
    """Writes what `load_titles` reads, most clicked first, ties by text."""
    with atomic_write(path) as file:
        file.write("title\tclicks\tqueries\n")
        for text, clicks, queries in sorted(titles, key=lambda one: (-one.clicks, one.text)):
            file.write(f"{text}\t{clicks}\t{queries}\n")
