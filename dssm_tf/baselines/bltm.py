"""The bilingual topic model: queries and titles as two languages for the same topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Click
from dssm_tf.baselines.collection import Collection, distinct_titles
from dssm_tf.baselines.coupled_posterior import Side, couple
from dssm_tf.baselines.plsa import check_priors, log_prior, normalized, settled
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.topic_model import TopicModel, first_texts, topics_of
from dssm_tf.common.errors import NoClicks
from dssm_tf.common.progress import progress_of
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self

Array = NDArray[np.float64]

_PAIRS = 256  # worked on at once: their topics fit a CPU's cache


class BLTM(TopicModel):
    """A topic model of clicked pairs: one mixture, two sets of words a topic.

    A pair draws its query's words from `p(w|z)` of queries and its title's words
    from `p(w|z)` of titles, the topics of both from one mixture. EM holds the
    posterior to the constraint that in every pair each topic has the same
    fraction of the query's words and of the title's. A title is scored as in
    `TopicModel`: its mixture from the title's words, the query from the words
    that queries have for the same topics.

    Args:
        topics: how many; the papers have 100.
        mixture_prior: concentration of the prior of a pair's mixture, less 1, at least 0.
        word_prior: concentration of the prior of a topic's words, less 1, at least 0.
        iterations: of EM, at most.
        tolerance: EM ends when the objective gains less than this share of its size.
        gap: largest difference of the two fractions that an E-step leaves.
        rounds: of an E-step on the constraint, at most.
        mu: words of the collection that every title is padded with, above 0.
        weight: of the topics against the words of the title, from 0 to 1.
        seed: of the start.
        progress: shows a bar on the error stream while fitting.

    Attributes:
        objective: log-likelihood, less the divergence that the constraint costs, plus
            log-prior, in nats, before each step of EM; a pair counts as often as clicked.
        gaps: the largest difference of fractions, in any pair, at each step of EM.

    Reference: Gao, Toutanova and Yih 2011; S14 section 5.2 on the constraint; Platt, Toutanova
    and Yih 2010 for its EM.
    """

    name = "bltm"

    def __init__(
        self,
        topics: int = 100,
        *,
        mixture_prior: float = 0.1,
        word_prior: float = 0.1,
        iterations: int = 50,
        tolerance: float = 1e-5,
        gap: float = 1e-3,
        rounds: int = 100,
        mu: float = 30.0,
        weight: float = 0.2,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        super().__init__(topics, mu, weight, seed, progress)
        check_priors(mixture_prior, word_prior)
        self.mixture_prior = mixture_prior
        self.word_prior = word_prior
        self.iterations = iterations
        self.tolerance = tolerance
        self.gap = gap
        self.rounds = rounds

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns the topics of the clicked pairs.

        Raises:
            UserError: no click has a word in its query and one in its title.
        """
        clicks = list(clicks)
        pairs = _Pairs(clicks)
        self.objective: list[float] = []
        self.gaps: list[float] = []
        texts = distinct_titles(list(titles), [title for _, title, _ in clicks])
        terms = Terms.of([*texts, *pairs.queries])
        state = BilingualEM.start(pairs, terms, self.topics, np.random.default_rng(self.seed))
        with progress_of("bltm", self.iterations, self.progress) as task:
            for step in range(self.iterations):
                objective, gap = state.em_step(
                    self.mixture_prior, self.word_prior, self.gap, self.rounds
                )
                self.objective.append(objective)
                self.gaps.append(gap)
                task.update(step + 1, f"{objective:.4g} nats")
                if settled(self.objective, self.tolerance):
                    break
        prior = np.full(self.topics, self.mixture_prior)
        self._set(Collection.of(terms, texts), state.query_words, state.title_words, prior)
        return self


class _Pairs:
    """The distinct clicked pairs that have words on both sides, with their clicks."""

    def __init__(self, clicks: Iterable[Click]) -> None:
        counted: dict[tuple[str, str], float] = defaultdict(float)
        for query, title, count in clicks:
            if count > 0:
                counted[FOLDED.key(query), FOLDED.key(title)] += count
        kept = {pair: count for pair, count in counted.items() if all(pair)}
        if not kept:
            raise NoClicks(
                f"BLTM got {len(counted)} clicked pairs, none of them with a word in the query "
                "and in the title; it learns from clicks."
            )
        self.queries = [query for query, _ in kept]
        self.titles = [title for _, title in kept]
        self.clicks = np.array(list(kept.values()), dtype=np.float64)


class BilingualEM:
    """EM on pairs: the parameters, and the multipliers of the constraint between steps.

    Args:
        query_counts: `(pairs, words)`, every row with a word.
        title_counts: `(pairs, words)`, every row with a word.
        clicks: how often each pair counts, `(pairs,)`.
        query_words: `p(w|z)` of queries to start from, `(words, topics)`.
        title_words: of titles.

    Attributes:
        mixtures: `p(z)` of each pair, `(pairs, topics)`, equal shares at the start.
    """

    def __init__(
        self,
        query_counts: sparse.csr_matrix,
        title_counts: sparse.csr_matrix,
        clicks: Array,
        query_words: Array,
        title_words: Array,
    ) -> None:
        pairs, topics = len(clicks), query_words.shape[1]
        self.query_counts = query_counts
        self.title_counts = title_counts
        self.clicks = clicks
        self.query_words = query_words
        self.title_words = title_words
        self.mixtures = np.full((pairs, topics), 1 / topics)
        self._multipliers = np.zeros((pairs, topics))
        # Pairs of similar length stand together, so that little padding is needed.
        order = np.lexsort((np.diff(query_counts.indptr), np.diff(title_counts.indptr)))
        self._blocks = [order[start : start + _PAIRS] for start in range(0, pairs, _PAIRS)]

    @classmethod
    def start(
        cls, pairs: _Pairs, terms: Terms, topics: int, random: np.random.Generator
    ) -> BilingualEM:
        """Each topic starts from the two sides of the same few pairs."""
        queries, titles = terms.count(pairs.queries), terms.count(pairs.titles)
        chosen = first_texts(len(pairs.queries), topics, random)
        return cls(
            queries, titles, pairs.clicks, topics_of(queries, chosen), topics_of(titles, chosen)
        )

    def em_step(
        self, mixture_prior: float, word_prior: float, gap: float, rounds: int
    ) -> tuple[float, float]:
        """One step of EM; gives the objective before it, and the largest gap left."""
        shape = self.mixtures.shape
        query_shares, title_shares = np.empty(shape), np.empty(shape)
        query_weights = np.empty(self.query_counts.nnz)
        title_weights = np.empty(self.title_counts.nnz)
        mixtures = np.empty(shape)
        largest = 0.0
        objective = log_prior(self.query_words, word_prior)
        objective += log_prior(self.title_words, word_prior)
        for block in self._blocks:
            query, query_entries = _side(self.query_counts, block, self.query_words)
            title, title_entries = _side(self.title_counts, block, self.title_words)
            found = couple(
                self.mixtures[block], query, title, self._multipliers[block], gap, rounds
            )
            self._multipliers[block] = found.multipliers
            query_shares[block] = found.query.shares
            title_shares[block] = found.title.shares
            clicks = self.clicks[block]
            for side, entries, likely, weights in (
                (query, query_entries, found.query.likely, query_weights),
                (title, title_entries, found.title.likely, title_weights),
            ):
                filled = side.counts > 0
                values = clicks[:, None] * side.counts / likely
                weights[entries[filled]] = values[filled]
            mixtures[block] = normalized(
                query.lengths * found.query.fractions
                + title.lengths * found.title.fractions
                + mixture_prior,
                axis=1,
            )
            gaps = np.abs(found.query.fractions - found.title.fractions)
            largest = max(largest, float(gaps.max()))
            objective += float(clicks @ found.objective)
            if mixture_prior:
                logs = np.log(np.maximum(self.mixtures[block], 1e-300)).sum(axis=1)
                objective += mixture_prior * float(clicks @ logs)
        self.query_words = _new_words(
            self.query_counts, query_weights, query_shares, self.query_words, word_prior
        )
        self.title_words = _new_words(
            self.title_counts, title_weights, title_shares, self.title_words, word_prior
        )
        self.mixtures = mixtures
        return objective, largest


def _side(
    counts: sparse.csr_matrix, block: NDArray[np.int64], words: Array
) -> tuple[Side, NDArray[np.int64]]:
    """The words of some pairs, padded, and their places among the entries of `counts`."""
    first, lengths = counts.indptr[block], np.diff(counts.indptr)[block]
    column = np.arange(lengths.max())
    inside = column < lengths[:, None]
    entries = np.where(inside, first[:, None] + column, 0).astype(np.int64)
    return Side.of(words[counts.indices[entries]], counts.data[entries] * inside), entries


def _new_words(
    counts: sparse.csr_matrix, weights: Array, shares: Array, words: Array, prior: float
) -> Array:
    """The M-step of one side: `p(w|z)` from the posteriors, `(words, topics)`."""
    ratio = sparse.csr_matrix((weights, counts.indices, counts.indptr), shape=counts.shape)
    return normalized(words * (ratio.T @ shares) + prior, axis=0)
