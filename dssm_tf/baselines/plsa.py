"""Probabilistic latent semantic analysis of titles, by MAP-EM."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import Click, Floats, LearnedShapes
from dssm_tf.baselines.topic_model import (
    EMTopics,
    TopicEM,
    collect,
    initial_texts,
    initial_topics,
    log_prior,
    normalize,
    ratios,
)


class PLSA(TopicEM[EMTopics]):
    """A topic model of titles whose mixtures and topics have Dirichlet priors.

    It learns from the distinct titles of the corpus and the log. Each counts once, and queries are
    not used. `TopicModel` defines the score, and `TopicEM` the priors. If both priors are 0, this
    is plain PLSA. The objective is the log-likelihood plus the log-prior.

    Reference: Hofmann 1999; Gao, Toutanova and Yih 2011 for the priors and the scores.
    """

    name = "plsa"
    learned_type = EMTopics
    learned_shapes: ClassVar[LearnedShapes] = {
        "background": ("terms",),
        "query_word_probabilities": ("terms", "topics"),
    }

    def _fit(self, clicks: list[Click], titles: list[str]) -> EMTopics:
        collection = collect(clicks, titles, self.name)
        counts = collection.terms.count(collection.titles)
        size = len(collection.titles)
        chosen = initial_texts(size, self.topics, np.random.default_rng(self.seed))
        words = initial_topics(counts, chosen)
        mixtures = np.full((size, self.topics), 1 / self.topics)

        def step() -> float:
            nonlocal mixtures, words
            mixtures, words, objective = em_step(
                counts, mixtures, words, self.mixture_prior, self.word_prior
            )
            return objective

        objective = self._run_em(step)
        return EMTopics(collection.terms, collection.background, words, objective)


def em_step(
    counts: sparse.csr_matrix,
    mixtures: Floats,
    words: Floats,
    mixture_prior: float,
    word_prior: float,
) -> tuple[Floats, Floats, float]:
    """One step of MAP-EM.

    Args:
        counts: `(titles, words)`.
        mixtures: `p(z|d)`, `(titles, topics)`.
        words: `p(w|z)`, `(words, topics)`.
        mixture_prior: pseudo-count of each topic in each title.
        word_prior: pseudo-count of each word in each topic.

    Returns:
        New mixtures and words, and the log-likelihood plus log-prior of the old ones, in nats.
    """
    ratio = ratios(counts, mixtures, words)
    objective = float(counts.data @ np.log(counts.data / ratio.data))
    objective += log_prior(mixtures, mixture_prior) + log_prior(words, word_prior)
    new_mixtures = normalize(mixtures * (ratio @ words) + mixture_prior, axis=1)
    new_words = normalize(words * (ratio.T @ mixtures) + word_prior, axis=0)
    return new_mixtures, new_words, objective
