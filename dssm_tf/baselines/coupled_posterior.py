"""Posterior topics of query-title pairs, constrained to equal fractions on both sides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Floats

_FLOOR = 1e-200  # smallest probability; avoids log(0) and division by 0
# Removing converged pairs copies arrays, so it is done only if a smaller fraction remains.
_MAX_ACTIVE_FRACTION = 0.7


class PairWords(NamedTuple):
    """The words of the queries, or of the titles, of some pairs; padded to the same number.

    Attributes:
        probabilities: `p(w|z)` of the words, `(pairs, words, topics)`.
        counts: `(pairs, words)`, 0 where padded.
        entries: index of each count in the data of its sparse matrix, `(pairs, words)`.
    """

    probabilities: Floats
    counts: Floats
    entries: NDArray[np.int64]

    @property
    def lengths(self) -> Floats:
        """Number of words of each text, repeats included, `(pairs, 1)`."""
        return self.counts.sum(axis=1, keepdims=True)

    def subset(self, pairs: NDArray[np.bool_]) -> PairWords:
        """The words of some of the pairs."""
        return PairWords(self.probabilities[pairs], self.counts[pairs], self.entries[pairs])

    def posterior(self, log_mixtures: Floats) -> Posterior:
        """The posterior of the topics.

        Args:
            log_mixtures: logs of the topic mixtures, `(pairs, topics)`, up to a constant per pair.
        """
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
    """Posterior topics of the words of one text per pair: `p(w|z) mixture(z) / likelihood(w)`.

    Attributes:
        mixtures: topic mixtures with the multipliers applied, up to a factor per pair, `(pairs,
            topics)`.
        likelihoods: sum of `p(w|z) mixture(z)` over topics, for each word, `(pairs, words)`.
        fractions: the expected fraction of the text's words in each topic, `(pairs, topics)`.
        objective: sum of the log-likelihoods of the words, in nats, `(pairs,)`.
    """

    mixtures: Floats
    likelihoods: Floats
    fractions: Floats
    objective: Floats


class CoupledPosterior(NamedTuple):
    """The result of the E-step.

    Attributes:
        multipliers: Lagrange multipliers of the constraints, `(pairs, topics)`; the next E-step
            starts from them.
        query: posterior of the queries.
        title: posterior of the titles.
    """

    multipliers: Floats
    query: Posterior
    title: Posterior

    @property
    def objective(self) -> Floats:
        """Log-likelihood of each pair minus the divergence that the constraint causes, in nats."""
        return self.query.objective + self.title.objective


def constrained_e_step(
    mixtures: Floats,
    query: PairWords,
    title: PairWords,
    multipliers: Floats,
    tolerance: float,
    iterations: int,
) -> CoupledPosterior:
    """Finds the posteriors that are nearest to the model's and fulfill the pair constraint.

    Each word has a distribution `r(z|w)` over topics. The constraint: for every topic `z`, the
    mean of `r(z|w)` over the words of the query equals the mean over the words of the title.
    Among the distributions that fulfill it, the result has the smallest Kullback-Leibler divergence
    from the model's posterior. With multipliers `g(z)` for each pair, it is proportional to

        p(w|z) p(z) exp(g(z) / m)   in a query of m words,
        p(w|z) p(z) exp(-g(z) / n)  in a title of n words.

    An iteration adds `log(title fraction / query fraction) / (1/m + 1/n)` to `g`. This maximizes a
    lower bound of the concave dual, so no iteration decreases the dual.

    Args:
        mixtures: `p(z)` of each pair, `(pairs, topics)`.
        query: the words of the queries, at least one per pair.
        title: the words of the titles, at least one per pair.
        multipliers: multipliers to start from, `(pairs, topics)`.
        tolerance: a pair has converged if the fractions of each topic in its query and in its title
            differ by at most this.
        iterations: maximum number of iterations.

    Reference: Platt, Toutanova and Yih 2010 (coupled PLSA); Ganchev et al. 2010 for posterior
    regularization; Berger 1997 for the bound.
    """
    logs = np.log(np.maximum(mixtures, _FLOOR))
    multipliers = multipliers.copy()
    # The active pairs: those that have not converged, and converged ones that are not yet removed.
    rows = np.arange(len(logs))
    active = query, title

    def posteriors(
        queries: PairWords, titles: PairWords, rows: NDArray[np.int64]
    ) -> tuple[Posterior, Posterior]:
        g, log = multipliers[rows], logs[rows]
        return (
            queries.posterior(log + g / queries.lengths),
            titles.posterior(log - g / titles.lengths),
        )

    for _ in range(iterations):
        left, right = posteriors(*active, rows)
        unconverged = np.abs(left.fractions - right.fractions).max(axis=1) > tolerance
        if not unconverged.any():
            break
        ratio = np.maximum(right.fractions, _FLOOR) / np.maximum(left.fractions, _FLOOR)
        step = 1 / (1 / active[0].lengths + 1 / active[1].lengths)
        multipliers[rows[unconverged]] += (step * np.log(ratio))[unconverged]
        if unconverged.mean() < _MAX_ACTIVE_FRACTION:
            rows = rows[unconverged]
            active = active[0].subset(unconverged), active[1].subset(unconverged)
    return CoupledPosterior(multipliers, *posteriors(query, title, np.arange(len(logs))))
