"""Graded lists for a small click log, and their files."""

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
    """The lists of a file, as a training on `data` reads them."""
    config = parse_config({"tower": {"name": "dssm"}, section: {"file": str(path), **keys}})
    return read_sources(config.lists, Preprocessed(data.path))


def titles_of(data: Data) -> list[str]:
    """The texts of the log's titles."""
    return sorted(data.titles)


def lists(data: Data, queries: int = 40, titles: int = 5, seed: int = 0) -> list[GradedList]:
    """Queries of a color and an animal; a title's grade is 2 for each of the two that it has."""
    random, known = Random(seed), titles_of(data)
    judged = []
    for index in range(queries):
        best = random.choice(known)
        words = [word for word in FOLDED.words(best) if word not in ("the", "story")]
        sample = list(dict.fromkeys([best, *random.sample(known, titles)]))[: titles - index % 2]
        grades = tuple(2.0 * sum(word in FOLDED.words(title) for word in words) for title in sample)
        judged.append(GradedList(f"{' '.join(words)} no {index}", tuple(sample), grades))
    return judged


def write(path: Path, data: Data, column: str = "grade", **options) -> Path:
    """Writes `lists` to a file."""
    write_lists(path, column, lists(data, **options))
    return path
