"""The bilingual topic model: queries and titles as two languages for the same topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat
from scipy import sparse

from dssm_tf.baselines.base import Click, Floats, LearnedShapes
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.baselines.coupled_posterior import PairWords, Posterior, constrained_e_step
from dssm_tf.baselines.topic_model import (
    EMTopics,
    TopicEM,
    collect,
    initial_texts,
    initial_topics,
    log_prior,
    normalize,
)
from dssm_tf.common.field_types import Fraction, PositiveInt

_PAIRS = 256  # pairs per block, so that their topics fit into a CPU's cache


@dataclass(frozen=True, eq=False)
class BilingualTopics(EMTopics):
    """Topics with the words of queries and of titles.

    Attributes:
        terms: see `Topics`.
        background: see `Topics`.
        query_word_probabilities: see `Topics`.
        objective: see `EMTopics`.
        title_word_probabilities: `p(w|z)` of titles, `(words, topics)`.
        gaps: at each step of EM, the largest difference, over pairs and topics, between a topic's
            fraction of the query's words and of the title's.
    """

    title_word_probabilities: Floats
    gaps: list[float]


class BLTM(TopicEM[BilingualTopics]):
    """A topic model of clicked pairs: one mixture, two sets of words per topic.

    The query and the title of a pair share one mixture of topics. The query's words are drawn from
    `p(w|z)` of queries, and the title's words from `p(w|z)` of titles. EM constrains the posterior:
    in every pair, each topic has the same fraction of the query's words as of the title's words.

    A title is scored as in `TopicModel`: its mixture is inferred with `p(w|z)` of titles, and the
    query's likelihood is computed with `p(w|z)` of queries. The objective is the log-likelihood,
    minus the divergence that the constraint causes, plus the log-prior. A pair counts once per
    click.

    Reference: Gao, Toutanova and Yih 2011; Shen et al. 2014, sec. 5.2, on the constraint; Platt,
    Toutanova and Yih 2010 for its EM.
    """

    name = "bltm"
    learned_type = BilingualTopics
    learned_shapes: ClassVar[LearnedShapes] = {
        "background": ("terms",),
        "query_word_probabilities": ("terms", "topics"),
        "title_word_probabilities": ("terms", "topics"),
    }

    topic_weight: Fraction = Field(
        default=0.2, description="Weight of the topics against the words of the title."
    )
    iterations: PositiveInt = Field(default=50, description="Largest number of EM steps.")
    constraint_tolerance: PositiveFloat = Field(
        default=1e-3,
        description="An E-step ends when each topic's fractions of the query's words and of the "
        "title's words differ by at most this.",
    )
    constraint_iterations: PositiveInt = Field(
        default=100,
        description="Largest number of iterations that an E-step takes to fulfill the constraint.",
    )

    def _title_word_probabilities(self) -> Floats:
        return self.learned.title_word_probabilities

    def _fit(self, clicks: list[Click], titles: list[str]) -> BilingualTopics:
        pairs = ClickedPairs.from_clicks(clicks, self.name)
        collection = collect(clicks, titles, self.name, pairs.queries)
        count = collection.terms.count
        chosen = initial_texts(len(pairs.clicks), self.topics, np.random.default_rng(self.seed))
        em = BilingualEM(
            PairSide(count(pairs.queries), chosen),
            PairSide(count(pairs.titles), chosen),
            pairs.clicks,
        )
        gaps: list[float] = []

        def step() -> float:
            objective, gap = em.em_step(
                self.mixture_prior,
                self.word_prior,
                self.constraint_tolerance,
                self.constraint_iterations,
            )
            gaps.append(gap)
            return objective

        objective = self._run_em(step)
        return BilingualTopics(
            collection.terms,
            collection.background,
            em.query.words,
            objective,
            em.title.words,
            gaps,
        )


class PairSide:
    """The queries or the titles of the pairs, and the words of their topics.

    Args:
        counts: `(pairs, words)`; every row has at least one word.
        chosen: indices of the pairs that each topic starts from, `(topics, pairs per topic)`.

    Attributes:
        words: `p(w|z)`, `(words, topics)`.
    """

    def __init__(self, counts: sparse.csr_matrix, chosen: NDArray[np.int64]) -> None:
        self.counts = counts
        self.words = initial_topics(counts, chosen)
        self._ratios = np.empty(counts.nnz)
        self._mixtures = np.empty((counts.shape[0], len(chosen)))

    def pair_words(self, block: NDArray[np.int64]) -> PairWords:
        """The words of the pairs of a block, padded to the same number per pair."""
        first, lengths = self.counts.indptr[block], np.diff(self.counts.indptr)[block]
        column = np.arange(lengths.max())
        inside = column < lengths[:, None]
        entries = np.where(inside, first[:, None] + column, 0)
        probabilities = self.words[self.counts.indices[entries]]
        return PairWords(probabilities, self.counts.data[entries] * inside, entries)

    def store_expectations(
        self, block: NDArray[np.int64], words: PairWords, posterior: Posterior, clicks: Floats
    ) -> None:
        """Stores the ratios, weighted by clicks, and mixtures of a block of pairs, for `m_step`."""
        filled = words.counts > 0
        values = clicks[:, None] * words.counts / posterior.likelihoods
        self._ratios[words.entries[filled]] = values[filled]
        self._mixtures[block] = posterior.mixtures

    def m_step(self, prior: float) -> None:
        """Sets `words` from the stored ratios and mixtures."""
        ratio = sparse.csr_matrix(
            (self._ratios, self.counts.indices, self.counts.indptr), shape=self.counts.shape
        )
        self.words = normalize(self.words * (ratio.T @ self._mixtures) + prior, axis=0)


class BilingualEM:
    """EM on pairs: queries, titles, mixtures, and the multipliers of the constraint.

    Args:
        query: the queries.
        title: the titles, of the same pairs.
        clicks: weight of each pair, `(pairs,)`.

    Attributes:
        mixtures: `p(z)` of each pair, `(pairs, topics)`; initially equal fractions.
    """

    def __init__(self, query: PairSide, title: PairSide, clicks: Floats) -> None:
        self.query, self.title, self.clicks = query, title, clicks
        topics = query.words.shape[1]
        self.mixtures = np.full((len(clicks), topics), 1 / topics)
        self._multipliers = np.zeros((len(clicks), topics))
        # A block has pairs of similar lengths, so that it needs little padding.
        order = np.lexsort([np.diff(side.counts.indptr) for side in (query, title)])
        self._blocks = [order[start : start + _PAIRS] for start in range(0, len(order), _PAIRS)]

    def em_step(
        self, mixture_prior: float, word_prior: float, tolerance: float, iterations: int
    ) -> tuple[float, float]:
        """Takes one step of EM; returns the objective before it, and the largest remaining gap."""
        mixtures = np.empty_like(self.mixtures)
        gaps = []
        objective = log_prior(self.query.words, word_prior)
        objective += log_prior(self.title.words, word_prior)
        for block in self._blocks:
            query, title = self.query.pair_words(block), self.title.pair_words(block)
            before, clicks = self.mixtures[block], self.clicks[block]
            posterior = constrained_e_step(
                before, query, title, self._multipliers[block], tolerance, iterations
            )
            self._multipliers[block] = posterior.multipliers
            self.query.store_expectations(block, query, posterior.query, clicks)
            self.title.store_expectations(block, title, posterior.title, clicks)
            expected = query.lengths * posterior.query.fractions
            expected += title.lengths * posterior.title.fractions
            mixtures[block] = normalize(expected + mixture_prior, axis=1)
            gaps.append(np.abs(posterior.query.fractions - posterior.title.fractions).max())
            logs = np.log(np.maximum(before, 1e-300)).sum(axis=1)
            objective += float(clicks @ (posterior.objective + mixture_prior * logs))
        self.query.m_step(word_prior)
        self.title.m_step(word_prior)
        self.mixtures = mixtures
        return objective, float(max(gaps))
