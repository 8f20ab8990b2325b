"""Posterior topics of query-title pairs, held to equal fractions on both sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Floats

_FLOOR = 1e-200
_WORTH_COPYING = 0.7  # pairs that are done are set aside when this share is left


class Side(NamedTuple):
    """The words of one side of some pairs, padded to the same number.

    Attributes:
        made: `p(w|z)` of the words, `(pairs, words, topics)`.
        counts: `(pairs, words)`, 0 where padded.
        entries: where each count comes from, `(pairs, words)`.
    """

    made: Floats
    counts: Floats
    entries: NDArray[np.int64]

    @property
    def lengths(self) -> Floats:
        """Words of each pair, repeats counted, `(pairs, 1)`."""
        return self.counts.sum(axis=1, keepdims=True)

    def subset(self, pairs: NDArray[np.bool_]) -> Side:
        """The side of some of the pairs."""
        return Side(self.made[pairs], self.counts[pairs], self.entries[pairs])

    def posterior(self, tilted: Floats) -> Posterior:
        """The posterior from the logs of the shares, `(pairs, topics)`."""
        scale = tilted.max(axis=1, keepdims=True)
        shares = np.exp(tilted - scale)
        likely = np.maximum(np.matmul(self.made, shares[:, :, None])[:, :, 0], _FLOOR)
        weights = self.counts / (likely * self.lengths)
        fractions = shares * np.matmul(weights[:, None, :], self.made)[:, 0]
        objective = (self.counts * (np.log(likely) + scale)).sum(axis=1)
        return Posterior(shares, likely, fractions, objective)


class Posterior(NamedTuple):
    """Topics of the words of one side: `p(w|z) share(z) / likely(w)`.

    Attributes:
        shares: mixtures, tilted by the multipliers, up to a factor, `(pairs, topics)`.
        likely: the normaliser of each word, `(pairs, words)`.
        fractions: share of the side's words that each topic has, `(pairs, topics)`.
        objective: log of the normalisers of all its words, in nats, `(pairs,)`.
    """

    shares: Floats
    likely: Floats
    fractions: Floats
    objective: Floats


class Coupled(NamedTuple):
    """What the E-step gives.

    Attributes:
        multipliers: of the constraints, `(pairs, topics)`; the start of the next E-step.
        query: posterior of the query side.
        title: posterior of the title side.
    """

    multipliers: Floats
    query: Posterior
    title: Posterior

    @property
    def objective(self) -> Floats:
        """Log-likelihood of each pair less the divergence of the constraint, in nats."""
        return self.query.objective + self.title.objective


def couple(
    mixtures: Floats,
    query: Side,
    title: Side,
    multipliers: Floats,
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
    rows = np.arange(len(logs))  # the pairs that are not done
    moving = query, title

    def posteriors(left: Side, right: Side, rows: NDArray[np.int64]) -> tuple[Posterior, Posterior]:
        g, log = multipliers[rows], logs[rows]
        return left.posterior(log + g / left.lengths), right.posterior(log - g / right.lengths)

    for _ in range(rounds):
        left, right = posteriors(*moving, rows)
        apart = np.abs(left.fractions - right.fractions).max(axis=1) > tolerance
        if not apart.any():
            break
        ratio = np.maximum(right.fractions, _FLOOR) / np.maximum(left.fractions, _FLOOR)
        step = 1 / (1 / moving[0].lengths + 1 / moving[1].lengths)
        multipliers[rows[apart]] += (step * np.log(ratio))[apart]
        if apart.mean() < _WORTH_COPYING:
            rows = rows[apart]
            moving = moving[0].subset(apart), moving[1].subset(apart)
    return Coupled(multipliers, *posteriors(query, title, np.arange(len(logs))))
