"""Posterior topics of query-title pairs, constrained to equal fractions on both sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Floats

_FLOOR = 1e-200
_WORTH_COPYING = 0.7  # converged pairs are removed when less than this fraction remains


class PairWords(NamedTuple):
    """The words of one side of some pairs, padded to the same number.

    Attributes:
        probabilities: `p(w|z)` of the words, `(pairs, words, topics)`.
        counts: `(pairs, words)`, 0 where padded.
        entries: index of each count in the sparse matrix it comes from, `(pairs, words)`.
    """

    probabilities: Floats
    counts: Floats
    entries: NDArray[np.int64]

    @property
    def lengths(self) -> Floats:
        """Words of each pair, repeats counted, `(pairs, 1)`."""
        return self.counts.sum(axis=1, keepdims=True)

    def subset(self, pairs: NDArray[np.bool_]) -> PairWords:
        """The words of some of the pairs."""
        return PairWords(self.probabilities[pairs], self.counts[pairs], self.entries[pairs])

    def posterior(self, log_mixtures: Floats) -> Posterior:
        """The posterior from the logs of the mixtures, `(pairs, topics)`."""
        scale = log_mixtures.max(axis=1, keepdims=True)
        mixtures = np.exp(log_mixtures - scale)
        likelihoods = np.maximum(
            np.matmul(self.probabilities, mixtures[:, :, None])[:, :, 0], _FLOOR
        )
        weights = self.counts / (likelihoods * self.lengths)
        fractions = mixtures * np.matmul(weights[:, None, :], self.probabilities)[:, 0]
        objective = (self.counts * (np.log(likelihoods) + scale)).sum(axis=1)
        return Posterior(mixtures, likelihoods, fractions, objective)


class Posterior(NamedTuple):
    """Topics of the words of one side: `p(w|z) mixture(z) / likelihood(w)`.

    Attributes:
        mixtures: tilted by the multipliers, up to a factor, `(pairs, topics)`.
        likelihoods: the normalizer of each word, `(pairs, words)`.
        fractions: fraction of the side's words that each topic has, `(pairs, topics)`.
        objective: log of the normalizers of all its words, in nats, `(pairs,)`.
    """

    mixtures: Floats
    likelihoods: Floats
    fractions: Floats
    objective: Floats


class CoupledPosterior(NamedTuple):
    """The result of the E-step.

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


def constrained_e_step(
    mixtures: Floats,
    query: PairWords,
    title: PairWords,
    multipliers: Floats,
    tolerance: float,
    rounds: int,
) -> CoupledPosterior:
    """Finds the posteriors nearest to the model's under the pair constraint.

    Of all distributions `r` over topics for each word whose fractions agree,
    `mean over words of the query of r(z) = mean over words of the title of r(z)`
    for every topic `z`, the one with the smallest Kullback-Leibler divergence
    from the model's posterior. With a multiplier `g(z)` per pair it is

        r(z|w) ~ p(w|z) p(z) exp(g(z) / m)   in a query of m words,
        r(z|w) ~ p(w|z) p(z) exp(-g(z) / n)  in a title of n words.

    A round moves `g` by `log(title fraction / query fraction) / (1/m + 1/n)`: the
    maximum of a lower bound of the (concave) dual, so that no round makes it worse.

    Args:
        mixtures: `p(z)` of each pair, `(pairs, topics)`.
        query: the words of the queries, at least one per pair.
        title: the words of the titles, at least one per pair.
        multipliers: to start from, `(pairs, topics)`.
        tolerance: a pair has converged when no topic's two fractions differ by more.
        rounds: largest number of rounds.

    Reference: Platt, Toutanova and Yih 2010 (coupled PLSA); Ganchev et al. 2010 for posterior
    regularization; Berger 1997 for the bound.
    """
    logs = np.log(np.maximum(mixtures, _FLOOR))
    multipliers = multipliers.copy()
    rows = np.arange(len(logs))  # the pairs that have not converged
    moving = query, title

    def posteriors(
        left: PairWords, right: PairWords, rows: NDArray[np.int64]
    ) -> tuple[Posterior, Posterior]:
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
    return CoupledPosterior(multipliers, *posteriors(query, title, np.arange(len(logs))))
