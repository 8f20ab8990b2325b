"""Posterior topics of query-title pairs, held to equal fractions on both sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FLOOR = 1e-200
_WORTH_COPYING = 0.7  # pairs that are done are set aside when this share is left


class Side(NamedTuple):
    """The words of one side of some pairs, padded to the same number.

    Attributes:
        made: `p(w|z)` of the words, `(pairs, words, topics)`.
        counts: `(pairs, words)`, 0 where padded.
        lengths: words of each pair, repeats counted, `(pairs, 1)`.
    """

    made: Array
    counts: Array
    lengths: Array

    @classmethod
    def of(cls, made: Array, counts: Array) -> Side:
        """The side whose words count as given."""
        return cls(made, counts, counts.sum(axis=1, keepdims=True))


class Coupled(NamedTuple):
    """What the E-step gives.

    Attributes:
        multipliers: of the constraints, `(pairs, topics)`; the start of the next E-step.
        query: posterior of the query side.
        title: posterior of the title side.
        objective: log-likelihood of each pair less the divergence that the constraint costs,
            in nats, `(pairs,)`.
    """

    multipliers: Array
    query: Posterior
    title: Posterior
    objective: Array


class Posterior(NamedTuple):
    """Topics of the words of one side: `p(w|z) share(z) / likely(w)`.

    Attributes:
        shares: mixtures, tilted by the multipliers, `(pairs, topics)`.
        likely: the normaliser of each word, `(pairs, words)`.
        fractions: share of the side's words that each topic has, `(pairs, topics)`.
        scale: log of what the shares were divided by, `(pairs, 1)`.
    """

    shares: Array
    likely: Array
    fractions: Array
    scale: Array


def couple(
    mixtures: Array,
    query: Side,
    title: Side,
    multipliers: Array,
    tolerance: float,
    rounds: int,
) -> Coupled:
    """Finds the posteriors nearest to the model's under the pair constraint.

    Of all distributions `r` over topics for each word whose fractions agree,
    `mean over words of the query of r(z) = mean over words of the title of r(z)`
    for every topic `z`, the one with the smallest Kullback-Leibler divergence
    from the model's posterior. With a multiplier `g(z)` a pair it is

        r(z|w) ~ p(w|z) p(z) exp(g(z) / m)   in a query of m words,
        r(z|w) ~ p(w|z) p(z) exp(-g(z) / n)  in a title of n words.

    A round moves `g` by `log(title fraction / query fraction) / (1/m + 1/n)`: the
    maximum of a lower bound of the (concave) dual, so that no round makes it worse.

    Args:
        mixtures: `p(z)` of each pair, `(pairs, topics)`.
        query: the words of the queries, at least one a pair.
        title: the words of the titles, at least one a pair.
        multipliers: to start from, `(pairs, topics)`.
        tolerance: a pair is done when no topic's two fractions differ by more.
        rounds: at most.

    Reference: Platt, Toutanova and Yih 2010 (coupled PLSA); Ganchev et al. 2010 for posterior
    regularization; Berger 1997 for the bound.
    """
    logs = np.log(np.maximum(mixtures, _FLOOR))
    multipliers = multipliers.copy()
    moving = _Part(np.arange(len(logs)), logs, query, title)
    for _ in range(rounds):
        left, right = moving.posteriors(multipliers)
        apart = np.abs(left.fractions - right.fractions).max(axis=1) > tolerance
        if not apart.any():
            break
        ratio = np.maximum(right.fractions, _FLOOR) / np.maximum(left.fractions, _FLOOR)
        step = 1 / (1 / moving.query.lengths + 1 / moving.title.lengths)
        multipliers[moving.rows[apart]] += (step * np.log(ratio))[apart]
        if apart.mean() < _WORTH_COPYING:
            moving = moving.subset(apart)
    whole = _Part(np.arange(len(logs)), logs, query, title)
    left, right = whole.posteriors(multipliers)
    objective = (
        (query.counts * np.log(left.likely)).sum(axis=1)
        + (title.counts * np.log(right.likely)).sum(axis=1)
        + (query.lengths * left.scale + title.lengths * right.scale)[:, 0]
    )
    return Coupled(multipliers, left, right, objective)


class _Part(NamedTuple):
    """Some of the pairs: their rows, log-mixtures and words."""

    rows: NDArray[np.int64]
    logs: Array
    query: Side
    title: Side

    def posteriors(self, multipliers: Array) -> tuple[Posterior, Posterior]:
        """Of both sides under the multipliers of all pairs."""
        g = multipliers[self.rows]
        return (
            _posterior(self.query, self.logs + g / self.query.lengths),
            _posterior(self.title, self.logs - g / self.title.lengths),
        )

    def subset(self, chosen: NDArray[np.bool_]) -> _Part:
        """The chosen ones of these pairs."""
        return _Part(
            self.rows[chosen],
            self.logs[chosen],
            Side(*(array[chosen] for array in self.query)),
            Side(*(array[chosen] for array in self.title)),
        )


def _posterior(side: Side, tilted: Array) -> Posterior:
    """The posterior of a side from the logs of its shares."""
    scale = tilted.max(axis=1, keepdims=True)
    shares = np.exp(tilted - scale)
    likely = np.maximum(np.matmul(side.made, shares[:, :, None])[:, :, 0], _FLOOR)
    weights = side.counts / (likely * side.lengths)
    fractions = shares * np.matmul(weights[:, None, :], side.made)[:, 0]
    return Posterior(shares, likely, fractions, scale)
