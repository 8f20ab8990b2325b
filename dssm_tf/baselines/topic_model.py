"""The base classes of the topic models, and their shared parts: mixtures, scores and EM."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, SearchSpace
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Tokens
from dssm_tf.baselines.ulm import MU_VALUES, word_probabilities
from dssm_tf.common.field_types import Fraction, PositiveInt, Seed
from dssm_tf.common.progress import progress_of

TINY = float(np.finfo(np.float64).tiny)
_CELLS = 1 << 20  # probabilities that are in memory at once: 8 MiB
_ENTRIES = 8192  # counts that are processed together, so that their topics fit into a CPU's cache
_FOLD_IN_STEPS = 40


@dataclass(frozen=True, eq=False)
class Topics:
    """Topics learned from a collection of titles.

    Attributes:
        terms: the words of the collection.
        background: `p(w|C)`, `(words,)`.
        query_word_probabilities: `p(w|z)` of queries, `(words, topics)`, columns sum to 1.
    """

    terms: Terms
    background: Floats
    query_word_probabilities: Floats


@dataclass(frozen=True, eq=False)
class EMTopics(Topics):
    """Topics learned by EM.

    Attributes:
        terms: see `Topics`.
        background: see `Topics`.
        query_word_probabilities: see `Topics`.
        objective: the objective before each step of EM, in nats; EM increases it.
    """

    objective: list[float]


TopicsT = TypeVar("TopicsT", bound=Topics)
EMTopicsT = TypeVar("EMTopicsT", bound=EMTopics)


class TopicModel(Baseline[TopicsT], Generic[TopicsT]):
    """Scores a title by the log-likelihood of the query under the title's words and topics.

    `score = sum over words w of the query of log p(w|D)`, in nats, with

        p(w|D) = (1 - topic_weight) (count of w in D + mu p(w|C)) / (words of D + mu)
                 + topic_weight * sum over topics z of p(w|z) p(z|D)

    The mixture `p(z|D)` of a title, whether or not the log has it, is estimated by EM with fixed
    `p(w|z)` (see `fold_in`). EM starts from equal fractions, so nothing is random, and equal titles
    have equal mixtures.
    """

    search_space: ClassVar[SearchSpace] = {
        "mu": MU_VALUES,
        "topic_weight": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8),
    }
    refit_search_space: ClassVar[SearchSpace] = {"topics": (50, 100, 200)}

    topics: PositiveInt = Field(
        default=100, description="Number of topics; the papers use 100 and 500."
    )
    mu: PositiveFloat = Field(
        default=30.0,
        description="Smoothing: words, distributed as in the collection, added to each title.",
    )
    topic_weight: Fraction = Field(
        default=0.3, description="Weight of the topics against the words of the title."
    )
    seed: Seed = Field(default=0, description="Seed of the initial topics.")

    def mixtures(self, titles: Sequence[str]) -> Floats:
        """`p(z|D)`: `(len(titles), topics)`, rows sum to 1."""
        counts = self.learned.terms.count(titles)
        return fold_in(counts, self._title_word_probabilities(), self._topic_prior())

    def _title_word_probabilities(self) -> Floats:
        """`p(w|z)` of titles; the same as that of queries, except in `bltm`."""
        return self.learned.query_word_probabilities

    @abc.abstractmethod
    def _topic_prior(self) -> float:
        """Pseudo-count of every topic in a title."""

    def _encode_titles(self, titles: tuple[str, ...]) -> tuple[Tokens, Floats]:
        return self.learned.terms.tokens(titles), self.mixtures(titles).T

    def _score(self, queries: Sequence[str], encoded: tuple[Tokens, Floats]) -> Floats:
        query_counts = self.learned.terms.count(queries)
        used = np.unique(query_counts.indices)
        query_counts, words = query_counts[:, used], self.learned.query_word_probabilities[used]
        tokens, mixtures = encoded
        counts, lengths = tokens.by_word[used].tocsc(), tokens.lengths
        prior = self.mu * self.learned.background[used][:, None]
        scores = np.empty((len(queries), len(lengths)))
        step = max(1, _CELLS // max(1, len(used)))
        for start in range(0, len(lengths), step):
            columns = slice(start, start + step)
            lexical = (counts[:, columns].toarray() + prior) / (lengths[columns] + self.mu)
            topical = stable_product(words, mixtures[:, columns])
            probabilities = (1 - self.topic_weight) * lexical + self.topic_weight * topical
            # A word that only queries contain has probability 0 if `topic_weight` is 0.
            scores[:, columns] = query_counts @ np.log(np.maximum(probabilities, TINY))
        return scores


class TopicEM(TopicModel[EMTopicsT], Generic[EMTopicsT]):
    """A topic model whose mixtures and topics have Dirichlet priors, learned by MAP-EM."""

    mixture_prior: NonNegativeFloat = Field(
        default=0.1, description="Concentration of the Dirichlet prior of a mixture, minus 1."
    )
    word_prior: NonNegativeFloat = Field(
        default=0.1, description="Concentration of the Dirichlet prior of a topic's words, minus 1."
    )
    iterations: PositiveInt = Field(default=60, description="Largest number of EM steps.")
    tolerance: float = Field(
        default=1e-5,
        description="EM ends when the objective rises by less than this fraction of its value.",
    )

    def _topic_prior(self) -> float:
        return self.mixture_prior

    def _run_em(self, em_step: Callable[[], float]) -> list[float]:
        """Runs EM until it converges, but at most `iterations` steps.

        Args:
            em_step: takes one step and returns the objective before it.

        Returns:
            The objective before each step.
        """
        objective: list[float] = []
        with progress_of(self.name, self.iterations, self._show_progress) as task:
            for step in range(self.iterations):
                objective.append(em_step())
                task.update(step + 1, f"{objective[-1]:.4g} nats")
                gains = np.diff(objective[-2:])
                if (gains <= self.tolerance * abs(objective[-1])).any():
                    break
        return objective


class Collection(NamedTuple):
    """The titles that a topic model learns from.

    Attributes:
        titles: distinct titles of the corpus and the log.
        terms: the words of the titles, and of the queries if the model learns from queries.
        background: `p(w|C)` of the titles, `(words,)`.
    """

    titles: list[str]
    terms: Terms
    background: Floats


def collect(
    clicks: Sequence[Click], titles: Sequence[str], name: str, queries: Sequence[str] = ()
) -> Collection:
    """Counts the words of the distinct titles of the corpus and the log.

    Args:
        clicks: the log.
        titles: the corpus.
        name: name of the model, for errors.
        queries: texts whose words are added to the terms.

    Raises:
        UserError: no text has a word.
    """
    distinct = list(dict.fromkeys([*titles, *(title for _, title, _ in clicks)]))
    terms = Terms.from_corpus([*distinct, *queries], name)
    return Collection(distinct, terms, word_probabilities(terms.tokens(distinct)))


def fold_in(counts: sparse.csr_matrix, words: Floats, prior: float) -> Floats:
    """Mixtures of texts under fixed topics, by EM from equal fractions.

    The log-likelihood plus log-prior is concave in the mixture, so the start does not decide where
    EM ends. The number of steps is fixed, so a text's mixture does not depend on the other texts.

    Args:
        counts: `(texts, words)`.
        words: `p(w|z)`, `(words, topics)`.
        prior: pseudo-count of each topic, at least 0.

    Returns:
        `(texts, topics)`, rows sum to 1; a text without a word has equal fractions.
    """
    mixtures = np.full((counts.shape[0], words.shape[1]), 1 / words.shape[1])
    for _ in range(_FOLD_IN_STEPS):
        ratio = ratios(counts, mixtures, words)
        mixtures = normalize(mixtures * (ratio @ words) + prior, axis=1)
    return mixtures


def ratios(counts: sparse.csr_matrix, mixtures: Floats, words: Floats) -> sparse.csr_matrix:
    """`count / sum over topics of p(w|z) p(z|d)` for each count above 0: `(texts, words)`.

    EM needs sums of `count p(z|d,w)` over words and over texts. The posterior is `p(z|d,w) =
    p(w|z) p(z|d) / sum over topics of p(w|z) p(z|d)`. Products with this matrix give the sums, so
    that the full posterior is never in memory.
    """
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    probabilities = np.empty(len(rows))
    for start in range(0, len(rows), _ENTRIES):
        block = slice(start, start + _ENTRIES)
        probabilities[block] = np.einsum(
            "nz,nz->n", mixtures[rows[block]], words[counts.indices[block]]
        )
    ratio = counts.data / np.maximum(probabilities, 1e-300)
    return sparse.csr_matrix((ratio, counts.indices, counts.indptr), shape=counts.shape)


def normalize(weights: Floats, axis: int) -> Floats:
    """Scales weights to sum to 1 along an axis; weights that are all 0 become equal.

    >>> normalize(np.array([[3.0, 1.0], [0.0, 0.0]]), axis=1)
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    totals = weights.sum(axis=axis, keepdims=True)
    equal = np.full_like(weights, 1 / max(1, weights.shape[axis]))
    return np.divide(weights, totals, out=equal, where=totals > 0)


def log_prior(probabilities: Floats, pseudo_count: float) -> float:
    """Log of a symmetric Dirichlet prior, in nats, without its constant term."""
    return pseudo_count * float(np.log(np.maximum(probabilities, TINY)).sum())


def initial_texts(
    text_count: int, topic_count: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Indices of 1 to 5 random texts per topic, `(topics, count)`; few texts are repeated."""
    count = max(1, min(5, text_count // topic_count))
    return np.resize(random.permutation(text_count), (topic_count, count))


def initial_topics(counts: sparse.csr_matrix, chosen: NDArray[np.int64]) -> Floats:
    """The initial topics of EM: the mean of two word distributions, of a few texts and of all.

    Args:
        counts: `(texts, words)`.
        chosen: result of `initial_texts`.

    Returns:
        `p(w|z)`, `(words, topics)`.
    """
    chosen_counts = sum(counts[column].toarray() for column in chosen.T).T
    all_counts = np.asarray(counts.sum(axis=0)).reshape(-1, 1)
    return normalize(
        chosen_counts / np.maximum(chosen_counts.sum(axis=0), 1) + all_counts / all_counts.sum(),
        axis=0,
    )
