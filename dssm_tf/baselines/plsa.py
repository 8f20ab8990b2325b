"""Probabilistic latent semantic analysis of titles, by MAP-EM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.collection import Collection
from dssm_tf.baselines.topic_model import (
    TINY,
    TopicModel,
    first_topics,
    training_titles,
)
from dssm_tf.common.progress import progress_of

if TYPE_CHECKING:
    from typing_extensions import Self

Array = NDArray[np.float64]

_ENTRIES = 8192  # counts looked at together: their topics fit a CPU's cache


class PLSA(TopicModel):
    """A topic model of titles whose mixtures and topics have Dirichlet priors.

    Learned from the distinct titles of the corpus and the log, each once;
    queries are not used. `TopicModel` says how it scores.

    Args:
        topics: how many; the papers have 100 and 500.
        mixture_prior: concentration of the prior of a title's mixture, less 1, at least 0.
        word_prior: concentration of the prior of a topic's words, less 1, at least 0. With
            both 0 it is plain PLSA.
        iterations: of EM, at most.
        tolerance: EM ends when the objective gains less than this share of its size.
        mu: words of the collection that every title is padded with, above 0.
        weight: of the topics against the words of the title, from 0 to 1.
        seed: of the start.
        progress: shows a bar on the error stream while fitting.

    Attributes:
        objective: log-likelihood plus log-prior, in nats, before each step of EM.

    Reference: Hofmann 1999; Gao, Toutanova and Yih 2011 for the priors and the scores.
    """

    name = "plsa"

    def __init__(
        self,
        topics: int = 100,
        *,
        mixture_prior: float = 0.1,
        word_prior: float = 0.1,
        iterations: int = 60,
        tolerance: float = 1e-5,
        mu: float = 30.0,
        weight: float = 0.3,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(topics, mu, weight, seed, progress)
        check_priors(mixture_prior, word_prior)
        self.mixture_prior = mixture_prior
        self.word_prior = word_prior
        self.iterations = iterations
        self.tolerance = tolerance

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns the topics of the titles of the corpus and the log."""
        texts, terms = training_titles(clicks, titles, "PLSA")
        counts = terms.count(texts)
        words = first_topics(counts, self.topics, np.random.default_rng(self.seed))
        shares = np.full((len(texts), self.topics), 1 / self.topics)
        self.objective: list[float] = []
        with progress_of("plsa", self.iterations, self.progress) as task:
            for step in range(self.iterations):
                shares, words, objective = em_step(
                    counts, shares, words, self.mixture_prior, self.word_prior
                )
                self.objective.append(objective)
                task.update(step + 1, f"{objective:.4g} nats")
                if settled(self.objective, self.tolerance):
                    break
        prior = np.full(self.topics, self.mixture_prior)
        self._set(Collection.of(terms, texts), words, words, prior)
        return self


def em_step(
    counts: sparse.csr_matrix,
    shares: Array,
    words: Array,
    mixture_prior: float,
    word_prior: float,
) -> tuple[Array, Array, float]:
    """One step of MAP-EM.

    The posterior of a topic for word `w` of title `d` is
    `p(z|d,w) = p(w|z) p(z|d) / sum over topics`. It is never held as a whole: its
    sums over words and over titles are products with `count / sum over topics`.

    Args:
        counts: `(titles, words)`.
        shares: `p(z|d)`, `(titles, topics)`.
        words: `p(w|z)`, `(words, topics)`.
        mixture_prior: pseudo-count of each topic in each title.
        word_prior: pseudo-count of each word in each topic.

    Returns:
        New shares and words, and the log-likelihood plus log-prior of the old ones, in nats.
    """
    likely = _sampled_products(shares, words, counts)
    objective = float(counts.data @ np.log(likely))
    objective += log_prior(shares, mixture_prior) + log_prior(words, word_prior)
    ratio = sparse.csr_matrix(
        (counts.data / likely, counts.indices, counts.indptr), shape=counts.shape
    )
    new_shares = normalized(shares * (ratio @ words) + mixture_prior, axis=1)
    new_words = normalized(words * (ratio.T @ shares) + word_prior, axis=0)
    return new_shares, new_words, objective


def _sampled_products(shares: Array, words: Array, counts: sparse.csr_matrix) -> Array:
    """`shares @ words.T` where `counts` has entries: `(entries,)`, above 0."""
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    products = np.empty(len(rows))
    for start in range(0, len(rows), _ENTRIES):
        part = slice(start, start + _ENTRIES)
        products[part] = np.einsum("nz,nz->n", shares[rows[part]], words[counts.indices[part]])
    return np.maximum(products, TINY)


def normalized(weights: Array, axis: int) -> Array:
    """Weights that sum to 1 along an axis; equal ones where all are 0."""
    totals = weights.sum(axis=axis, keepdims=True)
    equal = np.full_like(weights, 1 / max(1, weights.shape[axis]))
    shares: Array = np.divide(weights, totals, out=equal, where=totals > 0)
    return shares


def log_prior(probabilities: Array, pseudo_count: float) -> float:
    """Log of a symmetric Dirichlet prior, in nats, without its constant."""
    if pseudo_count == 0:
        return 0.0
    return pseudo_count * float(np.log(np.maximum(probabilities, TINY)).sum())


def settled(objective: list[float], tolerance: float) -> bool:
    """Whether the last step gained less than a share of the objective's size."""
    if len(objective) < 2:
        return False
    return objective[-1] - objective[-2] <= tolerance * abs(objective[-1])


def check_priors(mixture_prior: float, word_prior: float) -> None:
    """Raises ValueError if a pseudo-count is below 0."""
    if not (mixture_prior >= 0 and word_prior >= 0):
        raise ValueError(
            f"mixture_prior is {mixture_prior} and word_prior is {word_prior}; "
            "expected at least 0 (the Dirichlet concentration less 1)."
        )
