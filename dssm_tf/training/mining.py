"""Hard negatives from rankings: by any system, once, or by the model itself while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.config import NegativesConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import Scores, tie_key, top_columns
from dssm_tf.evaluation.title_cache import TitleCache
from dssm_tf.tables.hard_negatives import HardNegative, read_hard_negatives
from dssm_tf.training.validation import Encode

_CELLS = 1 << 24  # scores held at once
_MOST_QUERIES = 1024  # scored at once

ScoreMatrix = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""Scores `(queries, titles)`; -inf for a title that is no answer at all."""


def hard_columns(
    scores: Scores, clicked: NDArray[np.int64], ranks: tuple[int, int], margin: float
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
    queries = data.texts("queries")
    titles = data.texts("titles")
    found = []
    for name, score in systems.items():
        mined = hard_pairs(data, score, ranks, margin, f"mine {name}" if progress else "")
        found += [
            HardNegative(queries[query], titles[title], name, rank, score)
            for query, title, rank, score in mined
        ]
    return found


def hard_pairs(
    data: Preprocessed,
    score: ScoreMatrix,
    ranks: tuple[int, int],
    margin: float,
    progress: str = "",
) -> Iterator[tuple[int, int, int, float]]:
    """What `mine` finds by one system: the numbers of query and title, rank and score."""
    texts = data.texts("titles")
    order = np.array(sorted(range(len(texts)), key=lambda one: tie_key(texts[one])), np.int64)
    column = np.empty_like(order)
    column[order] = np.arange(len(order))
    titles = [texts[number] for number in order.tolist()]
    queries = sorted((text, number) for number, text in enumerate(data.texts("queries")))
    clicked_of = data.clicked.to_pylist()
    with progress_of(progress, len(queries), bool(progress), unit="queries") as task:
        for start, block in _blocks([text for text, _ in queries], len(titles)):
            for (_, query), scores in zip(queries[start:], score(block, titles), strict=False):
                clicked = column[clicked_of[query]]
                for rank, at in enumerate(hard_columns(scores, clicked, ranks, margin), ranks[0]):
                    yield query, int(order[at]), rank, float(scores[at])
            task.advance(len(block))


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


def read_mined(negatives: NegativesConfig, data: Preprocessed) -> NDArray[np.int64]:
    """Numbers of the queries and titles of `negatives.mined_from`, `(pairs, 2)`.

    Says aloud what the data do not know.

    The table is of `dssm mine`, or any with the columns query and title.

    Raises:
        UserError: the table cannot be read, or no row is of these data.
    """
    path = negatives.mined_from
    if path is None:
        return np.zeros((0, 2), np.int64)
    texts = [*zip(*read_hard_negatives(path), strict=True)]
    pairs = np.stack([data.find("queries", texts[0]), data.find("titles", texts[1])], axis=1)
    lost = []
    for kind, column, numbers in zip(("queries", "titles"), texts, pairs.T, strict=True):
        unknown = dict.fromkeys(column[row] for row in np.flatnonzero(numbers < 0))
        if unknown:
            named = f"such as {next(iter(unknown))!r:.60}"
            lost.append(f"{len(unknown):,} of {len(set(column)):,} {kind}, {named}")
    line = f"{path} names what {data.directory} does not hold: {' and '.join(lost)}"
    pairs = pairs[(pairs >= 0).all(axis=1)]
    if not len(pairs):
        raise UserError(f"{line}. No row is left; mine with this data.")
    if lost:
        console = Console(stderr=True)
        said = f"{line}; these are left out"
        console.print(said, style="yellow", highlight=False, soft_wrap=True)
    return pairs
