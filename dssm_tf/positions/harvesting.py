"""Estimates examination from titles that were displayed at several positions for the same query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.positions.impressions import ImpressionCounts

_FLOOR = 1e-9  # avoids division by 0 and log(0)


class Interventions(NamedTuple):
    """Pairs displayed at two positions, one entry per (pair, position, other position).

    Args:
        query: index of the query, `(entries,)`.
        matrix_index: flat index `position * positions + other position` in a matrix
            `(positions, positions)`, both from 0, `(entries,)`.
        weight: `(entries,)`, equal for (pair, a, b) and (pair, b, a).
        clicks: click rate at `position` times the weight, `(entries,)`.
        positions: number of positions of the curve.
    """

    query: NDArray[np.int64]
    matrix_index: NDArray[np.int64]
    weight: NDArray[np.float64]
    clicks: NDArray[np.float64]
    positions: int

    def sums(
        self, query_counts: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights and clicks by position and other position, `(positions, positions)` each.

        Args:
            query_counts: number of times that each query counts, such as in a bootstrap sample,
                `(queries,)`.
        """
        entry_counts = query_counts[self.query]
        return self._matrix(entry_counts * self.weight), self._matrix(entry_counts * self.clicks)

    def _matrix(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums values of the entries, `(positions, positions)`."""
        sums = np.bincount(self.matrix_index, values, minlength=self.positions**2).astype(
            np.float64
        )
        return sums.reshape(self.positions, self.positions)


def interventions(log: ImpressionCounts, position_count: int) -> Interventions:
    """Collects the interventions of a log.

    A pair displayed n and m times at two positions has weight `n m / (n + m)` at both, as in the
    Mantel-Haenszel estimator. If a pair has the same weight at both positions, the expected ratio
    of clicks does not change. Among such weights, these have the least variance. (Agarwal et al.
    give all pairs the same weight.)
    """
    firsts, seconds = [], []
    # Cells of the same pair are adjacent.
    for distance in range(1, int(np.bincount(log.pair).max(initial=1))):
        (first,) = np.nonzero(log.pair[distance:] == log.pair[:-distance])
        firsts.append(first)
        seconds.append(first + distance)
    this = np.concatenate([*firsts, *seconds, np.empty(0, np.int64)]).astype(np.int64)
    other = np.concatenate([*seconds, *firsts, np.empty(0, np.int64)]).astype(np.int64)
    n, m = log.impressions[this], log.impressions[other]
    weight = n * m / (n + m)
    matrix_index = (log.position[this] - 1) * position_count + log.position[other] - 1
    rate = log.clicks[this] / n
    return Interventions(log.query[this], matrix_index, weight, weight * rate, position_count)


def all_pairs(
    weight: NDArray[np.float64],
    clicks: NDArray[np.float64],
    *,
    steps: int = 5000,
    tolerance: float = 1e-6,
) -> NDArray[np.float64]:
    """The AllPairs estimator of examination relative to position 1.

    Let r(k, k') be the mean relevance of the titles displayed at both positions k and k'. The
    likelihood of their clicks has its maximum at

        argmax over p, r of sum over k != k' of
            c(k, k') log(p(k) r(k, k')) + (n(k, k') - c(k, k')) log(1 - p(k) r(k, k'))

    This is a position-based model whose "titles" are the pairs of positions. It is fitted by EM.

    Args:
        weight: n, `(..., positions, positions)`, symmetric; 0 if no title was displayed at both.
        clicks: c, weighted clicks at the first of the two positions, of the same shape.
        steps: maximum number of EM steps.
        tolerance: EM stops when no log of an examination probability changes by more than this.

    Returns:
        `(..., positions)`. Values of positions that no titles connect to position 1 are
        meaningless; see `connected_positions`.

    Reference: Agarwal et al. 2019, "Estimating Position Bias without Intrusive Interventions",
        section 4, AllPairs.
    """
    start = np.sqrt(np.maximum(clicks.sum((-1, -2)) / weight.sum((-1, -2)), _FLOOR))
    examination = np.broadcast_to(start[..., None], weight.shape[:-1]).copy()
    relevance = np.broadcast_to(start[..., None, None], weight.shape).copy()
    at_position = np.maximum(weight.sum(-1), _FLOOR)
    at_both = np.maximum(weight + weight.swapaxes(-1, -2), _FLOOR)
    for _ in range(steps):
        examined = examination[..., None]
        unclicked = (weight - clicks) / np.maximum(1 - examined * relevance, _FLOOR)
        relevant = clicks + unclicked * relevance * (1 - examined)
        examinations = (clicks + unclicked * examined * (1 - relevance)).sum(-1)
        before = examination
        examination = np.clip(examinations / at_position, _FLOOR, 1)
        relevance = (relevant + relevant.swapaxes(-1, -2)) / at_both
        if np.abs(np.log(examination / before)).max() < tolerance:
            break
    relative: NDArray[np.float64] = examination / examination[..., :1]
    return relative


def connected_positions(clicks: NDArray[np.float64]) -> int:
    """The number of leading positions that clicked titles connect to position 1.

    Two positions are connected if titles displayed at both were clicked at both, directly or
    through other positions.

    Args:
        clicks: as in `all_pairs`, `(positions, positions)`.
    """
    is_connected = (clicks > 0) & (clicks.T > 0)
    reached = np.arange(len(clicks)) == 0
    for _ in range(len(clicks)):
        reached = reached | is_connected[reached].any(axis=0)
    return int(np.argmin(np.append(reached, False)))
