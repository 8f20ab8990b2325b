"""Judgments of a small click log's queries, and a configuration that learns from them."""

from __future__ import annotations

from pathlib import Path
from random import Random

from dssm_tf.config import parse_config
from dssm_tf.data.graded_sources import read_sources
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.graded_lists import GradedList, write_lists
from dssm_tf.text.rules import FOLDED
from tests.clicks import Data


def sources(data: Data, path: Path, section: str = "judgments", **keys):
    """The lists of a file as a run with such data reads them."""
    config = parse_config({"tower": {"name": "dssm"}, section: {"file": str(path), **keys}})
    return read_sources(config.lists, Preprocessed(data.path))


def titles_of(data: Data) -> list[str]:
    """The texts of the log's titles."""
    return sorted(data.titles)


def lists(data: Data, queries: int = 40, titles: int = 5, seed: int = 0) -> list[GradedList]:
    """Queries that name an animal and a colour; a title has a grade for each of the two."""
    random, known = Random(seed), titles_of(data)
    found = []
    for number in range(queries):
        named = random.choice(known)
        wanted = [word for word in FOLDED.words(named) if word not in ("the", "story")]
        chosen = list(dict.fromkeys([named, *random.sample(known, titles)]))[: titles - number % 2]
        grades = tuple(
            2.0 * sum(word in FOLDED.words(title) for word in wanted) for title in chosen
        )
        found.append(GradedList(f"{' '.join(wanted)} no {number}", tuple(chosen), grades))
    return found


def write(path: Path, data: Data, column: str = "grade", **options) -> Path:
    """The same as a file."""
    write_lists(path, column, lists(data, **options))
    return path
