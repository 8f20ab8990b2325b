"""Examination from interventions: titles that stood at several positions for one query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.positions.shown import Shown

_SMALLEST = 1e-9


class Interventions(NamedTuple):
    """Cells of pairs that stood at two positions, an entry each (pair, position, other position).

    Args:
        query: of each entry.
        place: `position * positions + other`, both from 0.
        weight: the same for (pair, a, b) and (pair, b, a).
        clicks: the weighted click rate at `position`.
        positions: of the curve.
    """

    query: NDArray[np.int64]
    place: NDArray[np.int64]
    weight: NDArray[np.float64]
    clicks: NDArray[np.float64]
    positions: int

    def sums(self, times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and clicks by position and other position, `(positions, positions)` each.

        Args:
            times: how often each query counts.
        """
        counted = times[self.query]
        return self._table(counted * self.weight), self._table(counted * self.clicks)

    def _table(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of values over their places, as a table of two positions."""
        sums = np.bincount(self.place, values, minlength=self.positions**2).astype(np.float64)
        return sums.reshape(self.positions, self.positions)


def interventions(shown: Shown, positions: int) -> Interventions:
    """The interventions in a log.

    A pair that was shown n and m times at two positions weighs `n m / (n + m)` at both, as in the
    estimator of Mantel and Haenszel: of weights that are alike on both sides, and so leave the
    expected ratio as it is, these have the least variance. (Agarwal et al. weigh all pairs alike.)
    """
    firsts, seconds = [], []
    for apart in range(1, int(np.bincount(shown.pair).max(initial=1))):
        (first,) = np.nonzero(shown.pair[apart:] == shown.pair[:-apart])
        firsts.append(first)
        seconds.append(first + apart)
    one = np.concatenate([*firsts, *seconds, np.empty(0, np.int64)]).astype(np.int64)
    other = np.concatenate([*seconds, *firsts, np.empty(0, np.int64)]).astype(np.int64)
    n, m = shown.impressions[one], shown.impressions[other]
    weight = n * m / (n + m)
    place = (shown.position[one] - 1) * positions + shown.position[other] - 1
    rate = shown.clicks[one] / n
    return Interventions(shown.query[one], place, weight, weight * rate, positions)


def all_pairs(
    weight: NDArray[np.float64],
    clicks: NDArray[np.float64],
    *,
    steps: int = 5000,
    tolerance: float = 1e-6,
) -> NDArray[np.float64]:
    """The AllPairs estimator: examination relative to position 1.

    For positions k and k' let the titles that stood at both have the mean relevance r(k, k'). The
    likelihood of their clicks is largest for

        argmax over p, r of sum over k != k' of
            c(k, k') log(p(k) r(k, k')) + (n(k, k') - c(k, k')) log(1 - p(k) r(k, k'))

    which is a position-based model whose "titles" are the pairs of positions; EM finds it.

    Args:
        weight: n, `(..., positions, positions)`, symmetric; 0 where no title stood at both.
        clicks: c, weighted clicks at the first of the two positions.
        steps: at most.
        tolerance: of the logarithm of any examination in a step, where it ends.

    Returns:
        `(..., positions)`; what no title ties to position 1 is meaningless, see `tied`.

    Reference: Agarwal et al. 2019, "Estimating Position Bias without Intrusive Interventions",
        section 4, AllPairs.
    """
    start = np.sqrt(np.maximum(clicks.sum((-1, -2)) / weight.sum((-1, -2)), _SMALLEST))
    examination = np.broadcast_to(start[..., None], weight.shape[:-1]).copy()
    relevance = np.broadcast_to(start[..., None, None], weight.shape).copy()
    at_position = np.maximum(weight.sum(-1), _SMALLEST)
    at_both = np.maximum(weight + weight.swapaxes(-1, -2), _SMALLEST)
    for _ in range(steps):
        seen = examination[..., None]
        unclicked = (weight - clicks) / np.maximum(1 - seen * relevance, _SMALLEST)
        relevant = clicks + unclicked * relevance * (1 - seen)
        examined = (clicks + unclicked * seen * (1 - relevance)).sum(-1)
        before = examination
        examination = np.clip(examined / at_position, _SMALLEST, 1)
        relevance = (relevant + relevant.swapaxes(-1, -2)) / at_both
        if np.abs(np.log(examination / before)).max() < tolerance:
            break
    relative: NDArray[np.float64] = examination / examination[..., :1]
    return relative


def tied(clicks: NDArray[np.float64]) -> int:
    """How many positions, from 1, titles with clicks tie to the first, over others if need be.

    Args:
        clicks: as of `all_pairs`, `(positions, positions)`.
    """
    both = (clicks > 0) & (clicks.T > 0)
    reached = np.arange(len(clicks)) == 0
    for _ in range(len(clicks)):
        reached = reached | both[reached].any(axis=0)
    return int(np.argmin(np.append(reached, False)))
