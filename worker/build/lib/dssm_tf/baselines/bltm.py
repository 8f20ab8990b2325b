"""The bilingual topic model: queries and titles as two languages for the same topics."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import AboveZero, Click, Count, Floats
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.baselines.coupled_posterior import Posterior, Side, couple
from dssm_tf.baselines.topic_model import (
    TopicEM,
    first_texts,
    first_topics,
    log_prior,
    normalized,
)

_PAIRS = 256  # worked on at once: their topics fit a CPU's cache


class BLTM(TopicEM):
    """A topic model of clicked pairs: one mixture, two sets of words a topic.

    A pair draws its query's words from `p(w|z)` of queries and its title's words
    from `p(w|z)` of titles, the topics of both from one mixture. EM holds the
    posterior to the constraint that in every pair each topic has the same
    fraction of the query's words and of the title's. A title is scored as in
    `TopicModel`: its mixture from the title's words, the query from the words
    that queries have for the same topics. The objective is log-likelihood, less the divergence
    that the constraint costs, plus log-prior; a pair counts as often as clicked.

    Args:
        gap: largest difference of the two fractions that an E-step leaves.
        rounds: of an E-step on the constraint, at most.

    Attributes:
        title_words: `p(w|z)` that make titles, `(words, topics)`.
        gaps: the largest difference of fractions, in any pair, at each step of EM.

    Reference: Gao, Toutanova and Yih 2011; S14 section 5.2 on the constraint; Platt, Toutanova
    and Yih 2010 for its EM.
    """

    name = "bltm"
    weight = 0.2
    iterations = 50
    gap: AboveZero = 1e-3
    rounds: Count = 100

    title_words: Floats
    gaps: list[float]

    def _title_words(self) -> Floats:
        return self.title_words

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        pairs = ClickedPairs.of(clicks, self.name)
        self._collect(clicks, titles, pairs.queries)
        chosen = first_texts(len(pairs.clicks), self.topics, np.random.default_rng(self.seed))
        state = BilingualEM(
            Language(self.terms.count(pairs.queries), chosen),
            Language(self.terms.count(pairs.titles), chosen),
            pairs.clicks,
        )
        self.gaps = []

        def step() -> float:
            objective, gap = state.em_step(
                self.mixture_prior, self.word_prior, self.gap, self.rounds
            )
            self.gaps.append(gap)
            return objective

        self._climb(step)
        self.query_words, self.title_words = state.query.words, state.title.words


class Language:
    """One side of the pairs: its words, and the topics that make them.

    Args:
        counts: `(pairs, words)`, every row with a word.
        chosen: the pairs that each topic starts from, `(topics, few)`.

    Attributes:
        words: `p(w|z)`, `(words, topics)`.
    """

    def __init__(self, counts: sparse.csr_matrix, chosen: NDArray[np.int64]) -> None:
        self.counts = counts
        self.words = first_topics(counts, chosen)
        self._weights = np.empty(counts.nnz)
        self._shares = np.empty((counts.shape[0], len(chosen)))

    def side(self, block: NDArray[np.int64]) -> Side:
        """The words of some pairs, padded."""
        first, lengths = self.counts.indptr[block], np.diff(self.counts.indptr)[block]
        column = np.arange(lengths.max())
        inside = column < lengths[:, None]
        entries = np.where(inside, first[:, None] + column, 0)
        made = self.words[self.counts.indices[entries]]
        return Side(made, self.counts.data[entries] * inside, entries)

    def take(self, block: NDArray[np.int64], side: Side, found: Posterior, clicks: Floats) -> None:
        """Keeps what the M-step needs of some pairs."""
        filled = side.counts > 0
        values = clicks[:, None] * side.counts / found.likely
        self._weights[side.entries[filled]] = values[filled]
        self._shares[block] = found.shares

    def m_step(self, prior: float) -> None:
        """New words from what was taken."""
        ratio = sparse.csr_matrix(
            (self._weights, self.counts.indices, self.counts.indptr), shape=self.counts.shape
        )
        self.words = normalized(self.words * (ratio.T @ self._shares) + prior, axis=0)


class BilingualEM:
    """EM on pairs: both languages, the mixtures, and the multipliers of the constraint.

    Args:
        query: the queries.
        title: the titles, of the same pairs.
        clicks: how often each pair counts, `(pairs,)`.

    Attributes:
        mixtures: `p(z)` of each pair, `(pairs, topics)`, equal shares at the start.
    """

    def __init__(self, query: Language, title: Language, clicks: Floats) -> None:
        self.query, self.title, self.clicks = query, title, clicks
        topics = query.words.shape[1]
        self.mixtures = np.full((len(clicks), topics), 1 / topics)
        self._multipliers = np.zeros((len(clicks), topics))
        # Pairs of similar length stand together, so that little padding is needed.
        order = np.lexsort([np.diff(one.counts.indptr) for one in (query, title)])
        self._blocks = [order[start : start + _PAIRS] for start in range(0, len(order), _PAIRS)]

    def em_step(
        self, mixture_prior: float, word_prior: float, gap: float, rounds: int
    ) -> tuple[float, float]:
        """One step of EM; gives the objective before it, and the largest gap left."""
        languages = self.query, self.title
        mixtures = np.empty_like(self.mixtures)
        gaps = []
        objective = sum(log_prior(language.words, word_prior) for language in languages)
        for block in self._blocks:
            query, title = (language.side(block) for language in languages)
            before, clicks = self.mixtures[block], self.clicks[block]
            found = couple(before, query, title, self._multipliers[block], gap, rounds)
            self._multipliers[block] = found.multipliers
            self.query.take(block, query, found.query, clicks)
            self.title.take(block, title, found.title, clicks)
            expected = query.lengths * found.query.fractions
            expected += title.lengths * found.title.fractions
            mixtures[block] = normalized(expected + mixture_prior, axis=1)
            gaps.append(np.abs(found.query.fractions - found.title.fractions).max())
            logs = np.log(np.maximum(before, 1e-300)).sum(axis=1)
            objective += float(clicks @ (found.objective + mixture_prior * logs))
        for language in languages:
            language.m_step(word_prior)
        self.mixtures = mixtures
        return objective, float(max(gaps))
