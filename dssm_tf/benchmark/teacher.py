"""Another model's vectors as scores that a small model learns from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dssm_tf.benchmark.external import vectors
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.tables.graded_lists import GradedList
from dssm_tf.tables.judgments import CORPUS_COLUMNS
from dssm_tf.tables.writer import write_table
from dssm_tf.text.rules import Key, Rules


class Lesson(NamedTuple):
    """What a teacher may be asked about.

    Args:
        queries: distinct when normalised, in the order of the alphabet.
        titles: likewise.
        clicked: of each query, places of titles clicked for it.
    """

    queries: tuple[str, ...]
    titles: tuple[str, ...]
    clicked: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, data: Preprocessed, title_queries: bool = False) -> Lesson:
        """The queries of a log, of its validation part too, and all titles of log and corpus.

        Args:
            data: what preprocess wrote.
            title_queries: whether each title is a query too.
        """
        key = data.rules.key
        titles = _distinct((title.text for title in data.titles), data.rules)
        place = {own: number for number, own in enumerate(titles)}
        pairs = [(query, title) for query, title, _ in data.log()]
        pairs += [(title, title) for title in titles.values()] if title_queries else []
        queries: dict[Key, str] = {}
        clicked: dict[Key, set[int]] = defaultdict(set)
        for query, title in pairs:
            queries.setdefault(key(query), query)
            clicked[key(query)].add(place[key(title)])
        keys = sorted(queries)
        return cls(
            tuple(queries[one] for one in keys),
            tuple(titles.values()),
            tuple(tuple(sorted(clicked[one])) for one in keys),
        )

    @property
    def query_ids(self) -> list[str]:
        """One a query, `q000001` and so on."""
        return [f"q{number:06d}" for number in range(1, len(self.queries) + 1)]

    @property
    def doc_ids(self) -> list[str]:
        """One a title, `t000001` and so on."""
        return [f"t{number:06d}" for number in range(1, len(self.titles) + 1)]

    def write(self, folder: Path) -> None:
        """Writes `queries.tsv` and `titles.tsv`: what to embed, in order."""
        queries = zip(self.query_ids, self.queries, strict=True)
        titles = zip(self.doc_ids, self.titles, strict=True)
        write_table(folder / "queries.tsv", ("query_id", "query"), queries)
        write_table(folder / "titles.tsv", CORPUS_COLUMNS, titles)


def teach(
    lesson: Lesson,
    embeddings: tuple[Path, Path],
    best: int = 16,
    random: int = 16,
    seed: int = 0,
    progress: bool = False,
) -> Iterator[GradedList]:
    """The teacher's scores of chosen titles, query after query.

    Chosen are the clicked titles; those that the teacher ranks first, which are the hard ones; and
    others drawn at random, by which a student learns what is far away.

    Args:
        lesson: what is asked.
        embeddings: vectors of the queries and of the titles, in the order of the lesson or with
            ids, see `external.vectors`.
        best: titles a query that the teacher ranks first.
        random: titles a query drawn from all.
        seed: of the draw.
        progress: whether it is shown.

    Raises:
        UserError: the vectors are unusable, or nothing would be chosen.
    """
    if min(best, random) < 0 or best + random < 1:
        raise UserError(f"--best {best} and --random {random}: expected at least one title.")
    scores_of = vectors("teacher", embeddings, lesson.query_ids, lesson.doc_ids)
    rng = np.random.default_rng(seed)
    with progress_of("teach", len(lesson.queries), progress, unit="queries") as task:
        for row, query in enumerate(lesson.queries):
            (scores,) = scores_of(np.array([row]), None)
            first = top_columns(scores, max(best, 1))[:best].tolist()
            drawn = rng.integers(0, len(lesson.titles), random).tolist()
            places = list(dict.fromkeys([*lesson.clicked[row], *first, *drawn]))
            titles = tuple(lesson.titles[place] for place in places)
            yield GradedList(query, titles, tuple(map(float, scores[places])))
            task.advance()


def _distinct(texts: Iterator[str], rules: Rules) -> dict[Key, str]:
    """Texts by their normalised forms, in the order of those; empty ones left out."""
    found: dict[Key, str] = {}
    for text in texts:
        if key := rules.key(text):
            found.setdefault(key, text)
    return dict(sorted(found.items()))
