"""Scores of a teacher model, from which a small model learns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dssm_tf.benchmark.external import Encode
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.tables.graded_lists import GradedList

_QUERIES = 256  # number of queries per batch


def teach(
    data: Preprocessed,
    teacher: tuple[Encode, Encode],
    best: int = 16,
    random: int = 16,
    seed: int = 0,
    progress: bool = False,
) -> Iterator[GradedList]:
    """The teacher's scores of some titles for every query of a log, including validation queries.

    The titles of a query are the clicked titles, the first titles of the teacher, and random
    titles, from which the student learns low scores.

    Args:
        data: the preprocessed log.
        teacher: functions from queries to unit vectors, and from titles.
        best: number of titles per query that the teacher ranks first.
        random: number of random titles per query.
        seed: seed of the random titles.
        progress: whether to show progress.

    Raises:
        UserError: `best` and `random` are both 0, or one is negative; or there are no queries.
    """
    if not data.spec.count("queries"):
        raise UserError(
            f"{data.directory} has no queries to score titles for, because it was made without a "
            "click log; give preprocess --input."
        )
    if min(best, random) < 0 or best + random < 1:
        raise UserError(f"--best {best} and --random {random}: expected at least one title.")
    queries, titles, clicked = data.texts("queries"), data.texts("titles"), data.clicked.to_pylist()
    (encode_queries, encode_titles), rng = teacher, np.random.default_rng(seed)
    vectors = encode_titles(titles)
    with progress_of("teach", len(queries), progress, unit="queries") as task:
        for start in range(0, len(queries), _QUERIES):
            block = queries[start : start + _QUERIES]
            for row, scores in enumerate(encode_queries(block) @ vectors.T, start):
                best_titles = top_columns(scores, max(best, 1))[:best].tolist()
                sampled = rng.integers(0, len(titles), random).tolist()
                indices = list(dict.fromkeys([*clicked[row], *best_titles, *sampled]))
                texts = tuple(titles[index] for index in indices)
                yield GradedList(queries[row], texts, tuple(map(float, scores[indices])))
                task.advance()
