"""Probabilistic latent semantic analysis of titles, by MAP-EM."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import Click, Floats
from dssm_tf.baselines.topic_model import (
    TopicEM,
    first_texts,
    first_topics,
    log_prior,
    normalized,
    ratios,
)


class PLSA(TopicEM):
    """A topic model of titles whose mixtures and topics have Dirichlet priors.

    Learned from the distinct titles of the corpus and the log, each once;
    queries are not used. `TopicModel` says how it scores, `TopicEM` what its parameters are;
    with both priors 0 it is plain PLSA. The objective is log-likelihood plus log-prior.

    Reference: Hofmann 1999; Gao, Toutanova and Yih 2011 for the priors and the scores.
    """

    name = "plsa"

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        texts = self._collect(clicks, titles)
        counts = self.terms.count(texts)
        chosen = first_texts(len(texts), self.topics, np.random.default_rng(self.seed))
        self.query_words = first_topics(counts, chosen)
        shares = np.full((len(texts), self.topics), 1 / self.topics)

        def step() -> float:
            nonlocal shares
            shares, self.query_words, objective = em_step(
                counts, shares, self.query_words, self.mixture_prior, self.word_prior
            )
            return objective

        self._climb(step)


def em_step(
    counts: sparse.csr_matrix,
    shares: Floats,
    words: Floats,
    mixture_prior: float,
    word_prior: float,
) -> tuple[Floats, Floats, float]:
    """One step of MAP-EM.

    Args:
        counts: `(titles, words)`.
        shares: `p(z|d)`, `(titles, topics)`.
        words: `p(w|z)`, `(words, topics)`.
        mixture_prior: pseudo-count of each topic in each title.
        word_prior: pseudo-count of each word in each topic.

    Returns:
        New shares and words, and the log-likelihood plus log-prior of the old ones, in nats.
    """
    ratio = ratios(counts, shares, words)
    objective = float(counts.data @ np.log(counts.data / ratio.data))
    objective += log_prior(shares, mixture_prior) + log_prior(words, word_prior)
    new_shares = normalized(shares * (ratio @ words) + mixture_prior, axis=1)
    new_words = normalized(words * (ratio.T @ shares) + word_prior, axis=0)
    return new_shares, new_words, objective
