"""One ranking out of several: by ranks or by scores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Key = TypeVar("Key", int, str)


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Key]], k: float = 60
) -> list[tuple[Key, float]]:
    """Adds up `1 / (k + rank)` over the rankings that hold a title, ranks from 1.

    Needs no scores, so systems whose scores have nothing in common can be
    fused. A title that a ranking lacks gets nothing from it.

    >>> fused = reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=1)
    >>> [(title, round(score, 3)) for title, score in fused]
    [('b', 0.833), ('a', 0.5), ('c', 0.333)]

    Args:
        rankings: titles, best first: rows or doc ids. Their order among each other does not count.
        k: how little the first ranks stand out, above -1.

    Returns:
        Titles and their sums, best first; equal sums by row or doc id.

    Raises:
        ValueError: a ranking holds a title twice, or `k` is not above -1.

    Reference: Cormack, Clarke and Buettcher 2009, sec. 2.
    """
    if not k > -1:
        raise ValueError(f"k is {k}; expected a number above -1, such as 60.")
    shares: dict[Key, list[float]] = defaultdict(list)
    for ranking in rankings:
        if len(set(ranking)) != len(ranking):
            raise ValueError("A ranking holds a title twice; a title has one rank.")
        for rank, title in enumerate(ranking, start=1):
            shares[title].append(1 / (k + rank))
    # fsum is exact, so that titles with the same ranks in other systems tie.
    sums = [(title, math.fsum(share)) for title, share in shares.items()]
    return sorted(sums, key=lambda pair: (-pair[1], pair[0]))


def linear_fusion(
    scores: Sequence[ArrayLike],
    weights: Sequence[float] | None = None,
    normalization: Literal["min-max", "z-norm"] = "min-max",
) -> NDArray[np.float64]:
    """Weighted sum of the systems' scores, each system's brought to one scale first.

        min-max   (s - min) / (max - min)             from 0 to 1
        z-norm    (s - mean) / standard deviation     mean 0, variance 1

    taken over the given titles. Unlike rank fusion it keeps how far apart two
    titles are. A system whose scores are all equal contributes 0.

    >>> linear_fusion([[1.0, 3.0, 2.0], [10.0, 10.0, 20.0]]).tolist()
    [0.0, 0.5, 0.75]

    Args:
        scores: for each system, the finite scores of the same titles: `(systems, titles)`.
        weights: one a system; equal ones that add up to 1 by default.
        normalization: `"min-max"` or `"z-norm"`.

    Returns:
        `(titles,)`, in the order given.

    Raises:
        ValueError: the lists differ in length, a score is not finite, or weights are missing.

    Reference: Fox and Shaw 1994 (CombSUM); Bruch, Gai and Ingber 2023 for min-max and z-norm.
    """
    lengths = {np.size(row) for row in scores}
    if len(lengths) != 1:
        raise ValueError(
            f"The systems scored {sorted(lengths)} titles; expected at least one system, and the "
            "same titles for each."
        )
    table = np.asarray(scores, np.float64).reshape(len(scores), -1)
    if not np.isfinite(table).all():
        raise ValueError("A score is not finite; leave titles out that a system did not score.")
    share = np.full(len(table), 1 / len(table)) if weights is None else np.asarray(weights, float)
    if share.shape != (len(table),):
        raise ValueError(f"{len(table)} systems and {share.size} weights; expected one a system.")
    if not table.size:
        return np.zeros(0)
    fused: NDArray[np.float64] = share @ _scaled(table, normalization)
    return fused


def pool_titles(
    rankings: Sequence[tuple[NDArray[np.integer[Any]], NDArray[np.floating[Any]]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The titles that any of several rankings lists, and what each gives them.

    >>> pool_titles([(np.array([7, 2]), np.array([0.5, 0.25])), (np.array([2]), np.array([9.0]))])
    (array([2, 7]), array([[0.25, 0.5 ],
           [9.  , -inf]]))

    Args:
        rankings: places of titles and their scores, best first.

    Returns:
        Places `(titles,)`, increasing, and scores `(rankings, titles)`, -inf where one lists none.
    """
    rows = np.unique(np.concatenate([listed for listed, _ in rankings])).astype(np.int64)
    scores = np.full((len(rankings), len(rows)), -np.inf)
    for own, (listed, given) in zip(scores, rankings, strict=True):
        own[np.searchsorted(rows, listed)] = given
    return rows, scores


def fill(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores `(titles,)` in which what is not listed, -inf, has the lowest score that is."""
    listed = np.isfinite(scores)
    return np.where(listed, scores, scores[listed].min() if listed.any() else 0.0)


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, ties in the order given; infinite for what is not listed, -inf."""
    order = np.argsort(-scores, kind="stable")
    found = np.empty(len(scores))
    found[order] = np.arange(1, len(scores) + 1)
    return np.where(np.isfinite(scores), found, np.inf)


def _scaled(table: NDArray[np.float64], normalization: str) -> NDArray[np.float64]:
    least = table.min(axis=1, keepdims=True)
    spread = table.max(axis=1, keepdims=True) - least
    flat = spread == 0
    if normalization == "min-max":
        middle, scale = least, spread
    elif normalization == "z-norm":
        middle, scale = table.mean(axis=1, keepdims=True), table.std(axis=1, keepdims=True)
    else:
        raise ValueError(f"normalization is {normalization!r}; expected 'min-max' or 'z-norm'.")
    scaled: NDArray[np.float64] = np.where(flat, 0.0, table - middle) / np.where(flat, 1.0, scale)
    return scaled
