"""The position-based model, fitted by regression EM."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.positions.shown import Shown

_STRENGTH = 1.0
_SMALLEST = 1e-9


class PositionModel(NamedTuple):
    """`P(click) = examination of the position * relevance of the pair`.

    Args:
        examination: `(positions,)`, each up to a common factor.
        relevance: `(pairs,)`, up to the inverse of that factor.
        log_likelihood: of the clicks before each step.
    """

    examination: NDArray[np.float64]
    relevance: NDArray[np.float64]
    log_likelihood: list[float]


def fit(
    shown: Shown,
    positions: int,
    times: NDArray[np.float64] | None = None,
    start: PositionModel | None = None,
    *,
    strength: float = _STRENGTH,
    steps: int = 1000,
    tolerance: float = 1e-5,
) -> PositionModel:
    """Fits the position-based model to clicks.

    The regression, from what is known of a pair to its relevance, is the mean of the pair's group.
    A pair that stood at several positions has a relevance of its own, drawn to that mean by
    `strength` impressions. A pair that stood at one position alone has the mean: with a relevance
    of its own it would fit its clicks whatever the examination. (Wang et al. have the regression
    for all pairs, by trees over many features.)

    Args:
        shown: at positions up to `positions`.
        positions: of the curve.
        times: how often each cell's query counts, `(cells,)`, as in a bootstrap; once by default.
        start: a model of the same cells to go on from.
        strength: impressions that the regression weighs.
        steps: at most.
        tolerance: of the logarithm of any examination in a step, where it ends.

    Reference: Wang et al. 2018, "Position Bias Estimation for Unbiased Learning to Rank in Personal
        Search", section 4, algorithm 1.
    """
    at, pair, shows = shown.position - 1, shown.pair, shown.impressions
    unclicked = shows - shown.clicks
    times = np.ones(len(pair)) if times is None else times
    shown_at = np.maximum(shown.at(times * shows, positions), _SMALLEST)
    shows_of = np.bincount(pair, shows)
    own = np.bincount(pair) > 1
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    group, copies = shown.group[first], times[first]
    shows_in = np.maximum(np.bincount(group, copies * shows_of), _SMALLEST)
    if start is None:
        # Of factors that give the same clicks, those in the middle are the quickest to leave.
        rate = np.sqrt(max(float(shown.clicks.sum() / shows.sum()), _SMALLEST))
        examination, relevance = np.full(positions, rate), np.full(len(group), rate)
    else:
        examination, relevance = start.examination, start.relevance
    likelihood: list[float] = []
    for _ in range(steps):
        seen, good = examination[at], relevance[pair]
        missing = np.maximum(1 - seen * good, _SMALLEST)
        found = np.log(np.maximum(seen * good, _SMALLEST))
        likelihood.append(float(times @ (shown.clicks * found + unclicked * np.log(missing))))
        # E: how many of the impressions were examined, and how many were of a relevant title.
        examined = shown.clicks + unclicked * seen * (1 - good) / missing
        relevant = np.bincount(pair, shown.clicks + unclicked * good * (1 - seen) / missing)
        # M
        before = examination
        examination = np.clip(shown.at(times * examined, positions) / shown_at, _SMALLEST, 1)
        mean = (np.bincount(group, copies * relevant) / shows_in)[group]
        relevance = np.where(own, (strength * mean + relevant) / (strength + shows_of), mean)
        if np.abs(np.log(examination / before)).max() < tolerance:
            break
    return PositionModel(examination, relevance, likelihood)
