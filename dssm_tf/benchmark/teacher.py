"""Another model's cosines as scores that a small model learns from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dssm_tf.benchmark.external import Encode
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import top_columns
from dssm_tf.tables.graded_lists import GradedList

_QUERIES = 256  # scored at once


def teach(
    data: Preprocessed,
    teacher: tuple[Encode, Encode],
    best: int = 16,
    random: int = 16,
    seed: int = 0,
    progress: bool = False,
) -> Iterator[GradedList]:
    """The teacher's scores of chosen titles for every query of a log, its validation part too.

    Chosen are the clicked titles; those that the teacher ranks first, which are the hard ones; and
    others drawn at random, by which a student learns what is far away.

    Args:
        data: what preprocess wrote.
        teacher: queries to unit vectors, and titles.
        best: titles a query that the teacher ranks first.
        random: titles a query drawn from all.
        seed: of the draw.
        progress: whether it is shown.

    Raises:
        UserError: nothing would be chosen.
    """
    if min(best, random) < 0 or best + random < 1:
        raise UserError(f"--best {best} and --random {random}: expected at least one title.")
    queries, titles, clicked = data.texts("queries"), data.texts("titles"), data.clicked.to_pylist()
    (encode_queries, encode_titles), rng = teacher, np.random.default_rng(seed)
    vectors = encode_titles(titles)
    with progress_of("teach", len(queries), progress, unit="queries") as task:
        for start in range(0, len(queries), _QUERIES):
            block = queries[start : start + _QUERIES]
            for row, scores in enumerate(encode_queries(block) @ vectors.T, start):
                first = top_columns(scores, max(best, 1))[:best].tolist()
                drawn = rng.integers(0, len(titles), random).tolist()
                places = list(dict.fromkeys([*clicked[row], *first, *drawn]))
                texts = tuple(titles[place] for place in places)
                yield GradedList(queries[row], texts, tuple(map(float, scores[places])))
                task.advance()
