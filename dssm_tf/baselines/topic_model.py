"""What the topic models share: mixtures of titles, and scores from words and topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.collection import Collection, distinct_titles
from dssm_tf.baselines.model_file import Arrays, Settings, numbers
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.ulm import MU_GRID, check_mu
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    pass

Array = NDArray[np.float64]

TINY = float(np.finfo(np.float64).tiny)
_CELLS = 1 << 20  # probabilities held at once: 8 MiB
_TITLES = 1024  # titles folded in at once
_FOLDING_STEPS = 40


class TopicModel(Baseline):
    """Scores a title by the log-likelihood of the query under its words and its topics.

    `score = sum over words w of the query of log p(w|D)`, in nats, with

        p(w|D) = (1 - weight) (count of w in D + mu p(w|C)) / (words of D + mu)
                 + weight * sum over topics z of p(w|z) p(z|D)

    The mixture `p(z|D)` of a title, of the log or not, is found by EM with
    the words of the topics fixed, starting from equal shares: equal titles
    have equal mixtures, and no chance is in it.

    Args:
        topics: how many.
        mu: words of the collection that every title is padded with, above 0.
        weight: of the topics against the words of the title, from 0 to 1.
        seed: of the start.
        progress: shows a bar on the error stream while fitting.

    Attributes:
        query_words: `p(w|z)` that make queries, `(words, topics)`, columns sum to 1.
        title_words: `p(w|z)` that make titles; the same except in bilingual models.
        topic_prior: what is added to every topic's words of a title, `(topics,)`.
    """

    free: ClassVar[Mapping[str, Sequence[Any]]] = {
        "mu": MU_GRID,
        "weight": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8),
    }
    fitted_free: ClassVar[Mapping[str, Sequence[Any]]] = {"topics": (50, 100, 200)}
    query_words: Array
    title_words: Array
    topic_prior: Array

    def __init__(self, topics: int, mu: float, weight: float, seed: int, progress: bool) -> None:
        if topics < 1:
            raise ValueError(f"topics is {topics}; expected at least 1.")
        check_mu(mu)
        if not 0 <= weight <= 1:
            raise ValueError(f"weight is {weight}; expected a number from 0 to 1.")
        self.topics = topics
        self.mu = mu
        self.weight = weight
        self.seed = seed
        self.progress = progress

    @property
    def words(self) -> tuple[str, ...]:
        """The rows of `query_words` and `title_words`."""
        return self._collection.terms.words

    def mixtures(self, titles: Sequence[str]) -> Array:
        """`p(z|D)`: `(len(titles), topics)`, rows sum to 1."""
        counts = self._collection.terms.count(titles)
        parts = [
            fold_in(counts[start : start + _TITLES], self.title_words, self.topic_prior)
            for start in range(0, len(titles), _TITLES)
        ]
        return np.concatenate([np.empty((0, self.title_words.shape[1])), *parts])

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Array:
        """Scores every title for every query."""
        counted = self._collection.titles(titles)
        mixtures = self._mixtures.get(titles, lambda texts: self.mixtures(texts).T)
        asked = self._collection.terms.count(queries)
        used = np.unique(asked.indices)
        asked = asked[:, used]
        words = self.query_words[used]
        scores = np.empty((len(queries), len(titles)))
        step = max(1, _CELLS // max(1, len(used)))
        for start in range(0, len(titles), step):
            columns = slice(start, min(start + step, len(titles)))
            lexical = self._collection.smoothed(counted, used, columns, self.mu)
            topical = stable_product(words, mixtures[:, columns])
            likely = (1 - self.weight) * lexical + self.weight * topical
            # A word that only queries have is impossible when the topics weigh nothing.
            scores[:, columns] = asked @ np.log(np.maximum(likely, TINY))
        return scores

    def _learned(self) -> tuple[Settings, Arrays]:
        arrays = {
            "probabilities": self._collection.probabilities,
            "query_words": self.query_words,
            "mixture_prior": self.topic_prior,
        }
        if self.title_words is not self.query_words:
            arrays["title_words"] = self.title_words
        return {"words": self._collection.terms.to_json()}, arrays

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        terms = Terms.from_json(settings["words"])
        size, names = len(terms), ("query_words", "title_words")
        of_query, of_title = (
            numbers(arrays, name if name in arrays else "query_words", size, None, least=0)
            for name in names
        )
        prior = numbers(arrays, "mixture_prior", of_query.shape[1], least=0)
        if of_title.shape != of_query.shape or not prior.size:
            raise ValueError("its queries and titles have other topics, or none")
        probabilities = numbers(arrays, "probabilities", size, least=0)
        self._set(Collection(terms, probabilities), of_query, of_title, prior)

    def _set(
        self, collection: Collection, query_words: Array, title_words: Array, prior: Array
    ) -> None:
        self._collection = collection
        self.query_words = query_words
        self.title_words = title_words
        self.topic_prior = prior
        # Mixtures do not depend on the free parameters: copies share them.
        self._mixtures: TitleCache[Array] = TitleCache()


def fold_in(counts: sparse.csr_matrix, words: Array, prior: Array) -> Array:
    """Mixtures of texts under fixed topics, by EM from equal shares.

    The likelihood with its prior is concave in the mixture, so the start does
    not decide where EM ends. The number of steps is fixed: a text's mixture
    does not depend on its company.

    Args:
        counts: `(texts, words)`.
        words: `p(w|z)`, `(words, topics)`.
        prior: what is added to the words of each topic, `(topics,)`, at least 0.

    Returns:
        `(texts, topics)`, rows sum to 1; a text without a word has the prior's shares.
    """
    texts, topics = counts.shape[0], words.shape[1]
    rows = np.repeat(np.arange(texts), np.diff(counts.indptr))
    made = words[counts.indices]  # (entries, topics)
    entries = np.arange(len(rows))
    shares = np.full((texts, topics), 1 / topics)
    for _ in range(_FOLDING_STEPS):
        likely = np.einsum("nz,nz->n", made, shares[rows])
        ratio = sparse.csr_matrix(
            (counts.data / np.maximum(likely, TINY), entries, counts.indptr),
            shape=(texts, len(rows)),
        )
        shares = shares * (ratio @ made) + prior
        totals = shares.sum(axis=1, keepdims=True)
        shares = np.divide(shares, totals, out=np.full_like(shares, 1 / topics), where=totals > 0)
    return shares


def training_titles(
    clicks: Iterable[Click], titles: Iterable[str], name: str
) -> tuple[list[str], Terms]:
    """The distinct titles of the corpus and of the log, and their words.

    Raises:
        UserError: there is no word in them.
    """
    texts = distinct_titles(list(titles), [title for _, title, _ in clicks])
    return texts, Terms.of_corpus(texts, name)


def first_topics(counts: sparse.csr_matrix, topics: int, random: np.random.Generator) -> Array:
    """Where EM starts: each topic is half the words of a few texts, half those of all.

    Args:
        counts: `(texts, words)`.
        topics: how many.
        random: chooses the texts.

    Returns:
        `p(w|z)`, `(words, topics)`.
    """
    return topics_of(counts, first_texts(counts.shape[0], topics, random))


def first_texts(texts: int, topics: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A few texts for each topic, no text twice if there are enough: `(topics, few)`."""
    few = max(1, min(5, texts // topics))
    if texts >= topics:
        return random.permutation(texts)[: few * topics].reshape(topics, few)
    return random.integers(0, texts, (topics, few))


def topics_of(counts: sparse.csr_matrix, chosen: NDArray[np.int64]) -> Array:
    """`p(w|z)` from the texts chosen for each topic, `(topics, few)`: `(words, topics)`."""
    topics, few = chosen.shape
    choose = sparse.csr_matrix(
        (np.ones(chosen.size), (np.repeat(np.arange(topics), few), chosen.ravel())),
        shape=(topics, counts.shape[0]),
    )
    own: Array = (choose @ counts).toarray().T
    every = np.asarray(counts.sum(axis=0)).reshape(-1, 1)
    start: Array = own / np.maximum(own.sum(axis=0), 1) + every / every.sum()
    start /= start.sum(axis=0)
    return start
