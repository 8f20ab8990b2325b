"""Hard negatives from rankings: by any system, once, or by the model itself while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.progress import progress_of
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import Scores, tie_key, top_columns
from dssm_tf.evaluation.title_cache import TitleCache
from dssm_tf.tables.hard_negatives import HardNegative
from dssm_tf.training.validation import Encode

_CELLS = 1 << 24  # scores held at once
_MOST_QUERIES = 1024  # scored at once

ScoreMatrix = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""Scores `(queries, titles)`; -inf for a title that is no answer at all."""


def hard_columns(
    scores: Scores, clicked: Sequence[int], ranks: tuple[int, int], margin: float
) -> NDArray[np.int64]:
    """The columns of a query's hard negatives, best first.

    Those that were clicked are left out, and those that may be as good, though nobody clicked
    them: whose score is above the best clicked title's less `margin` of it. What is left is
    ranked.

    Args:
        scores: `(titles,)`; -inf is never a negative.
        clicked: columns of the titles that were clicked for the query, anywhere in the log.
        ranks: first and last, from 1, of what is left.
        margin: share of the clicked title's score, at least 0 and below 1.

    Reference: Moreira et al. 2024 (NV-Retriever), sec. 3.2, TopK-PercPos, where `1 - margin` is
    the percentage.
    """
    allowed = np.array(scores, np.float64)
    best = allowed[clicked].max(initial=-np.inf)
    allowed[clicked] = -np.inf
    if np.isfinite(best):
        allowed[allowed > best - margin * abs(best)] = -np.inf
    return top_columns(allowed, min(ranks[1], len(allowed)))[ranks[0] - 1 :]


def mine(
    data: Preprocessed,
    systems: Mapping[str, ScoreMatrix],
    ranks: tuple[int, int] = (1, 30),
    margin: float = 0.05,
    progress: bool = False,
) -> list[HardNegative]:
    """Hard negatives of every query of the data, of all its titles.

    Args:
        data: what preprocess wrote.
        systems: scores by name. What two of them find stands twice.
        ranks: see `hard_columns`.
        margin: see `hard_columns`.
        progress: shows how far it is, on the error stream.

    Returns:
        System after system, queries in the order of their texts, best first. Ties go as
        everywhere, see `tie_key`.
    """
    identify = data.rules.id
    texts = {identify(title.text): title.text for title in reversed(data.titles)}
    titles = sorted(texts.values(), key=tie_key)
    column = {identify(title): place for place, title in enumerate(titles)}
    queries = sorted({identify(query): query for query, _, _ in data.clicks(*data.splits)}.values())
    clicked = [
        [column[one] for one in data.clicked_titles.of(identify(query)) if one in column]
        for query in queries
    ]
    found = []
    for name, score in systems.items():
        with progress_of(f"mine {name}", len(queries), progress, unit="queries") as task:
            for start, block in _blocks(queries, len(titles)):
                for row, scores in enumerate(score(block, titles), start):
                    chosen = hard_columns(scores, clicked[row], ranks, margin)
                    found += [
                        HardNegative(queries[row], titles[at], name, rank, float(scores[at]))
                        for rank, at in enumerate(chosen.tolist(), ranks[0])
                    ]
                task.advance(len(block))
    return found


def _blocks(queries: Sequence[str], titles: int) -> Iterator[tuple[int, Sequence[str]]]:
    step = min(max(1, _CELLS // max(titles, 1)), _MOST_QUERIES)
    for start in range(0, len(queries), step):
        yield start, queries[start : start + step]


def by_cosine(encode: Encode) -> ScoreMatrix:
    """Scores by the cosine of an encoder's unit vectors, without a prior: what training compares.

    Titles are encoded once.
    """
    cache: TitleCache[NDArray[np.float32]] = TitleCache()

    def score(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float32]:
        vectors = cache.get(titles, lambda texts: encode("title", tuple(texts)))
        matrix: NDArray[np.float32] = encode("query", tuple(queries)) @ vectors.T
        return matrix

    return score


def by_bm25(data: Preprocessed) -> ScoreMatrix:
    """Scores by BM25 over the titles of the data; a title without a word of the query is none."""
    from dssm_tf.baselines.bm25 import BM25

    ranker = BM25().fit([], sorted({title.text for title in data.titles}, key=tie_key))

    def score(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        scores = ranker.score_matrix(queries, titles)
        return np.where(scores > 0, scores, -np.inf)

    return score
