"""What the topic models share: mixtures of titles, scores from words and topics, EM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import (
    AboveZero,
    AtLeastZero,
    Baseline,
    Click,
    Count,
    Floats,
    Grid,
    Refit,
    Seed,
    Share,
)
from dssm_tf.baselines.stable_product import stable_product
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Tokens
from dssm_tf.baselines.ulm import MU_GRID, word_probabilities
from dssm_tf.common.progress import progress_of

TINY = float(np.finfo(np.float64).tiny)
_CELLS = 1 << 20  # probabilities held at once: 8 MiB
_ENTRIES = 8192  # counts looked at together: their topics fit a CPU's cache
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
        topics: how many; the papers have 100 and 500.
        mu: words of the collection that every title is padded with, above 0.
        weight: of the topics against the words of the title, from 0 to 1.
        seed: of the start.

    Attributes:
        query_words: `p(w|z)` that make queries, `(words, topics)`, columns sum to 1.
        topic_prior: what is added to every topic's words of a title.
    """

    topics: Annotated[Count, Refit((50, 100, 200))] = 100
    mu: Annotated[AboveZero, MU_GRID] = 30.0
    weight: Annotated[Share, Grid((0.05, 0.1, 0.2, 0.4, 0.6, 0.8))] = 0.3
    seed: Seed = 0

    terms: Terms
    background: Floats
    query_words: Floats
    topic_prior: float

    def mixtures(self, titles: Sequence[str]) -> Floats:
        """`p(z|D)`: `(len(titles), topics)`, rows sum to 1."""
        return fold_in(self.terms.count(titles), self._title_words(), self.topic_prior)

    def _title_words(self) -> Floats:
        """`p(w|z)` that make titles; the same as those that make queries, except in `bltm`."""
        return self.query_words

    def _collect(
        self, clicks: list[Click], titles: list[str], queries: Sequence[str] = ()
    ) -> list[str]:
        """Counts the words of the distinct titles of the corpus and the log, and gives those."""
        texts = list(dict.fromkeys([*titles, *(title for _, title, _ in clicks)]))
        self.terms = Terms.of_corpus([*texts, *queries], self.name)
        self.background = word_probabilities(self.terms.tokens(texts))
        return texts

    def _prepare(self, titles: tuple[str, ...]) -> tuple[Tokens, Floats]:
        return self.terms.tokens(titles), self.mixtures(titles).T

    def _score(self, queries: Sequence[str], prepared: tuple[Tokens, Floats]) -> Floats:
        asked = self.terms.count(queries)
        used = np.unique(asked.indices)
        asked, words = asked[:, used], self.query_words[used]
        tokens, mixtures = prepared
        counts, lengths = tokens.by_word[used].tocsc(), tokens.lengths
        prior = self.mu * self.background[used][:, None]
        scores = np.empty((len(queries), len(lengths)))
        step = max(1, _CELLS // max(1, len(used)))
        for start in range(0, len(lengths), step):
            columns = slice(start, start + step)
            lexical = (counts[:, columns].toarray() + prior) / (lengths[columns] + self.mu)
            topical = stable_product(words, mixtures[:, columns])
            likely = (1 - self.weight) * lexical + self.weight * topical
            # A word that only queries have is impossible when the topics weigh nothing.
            scores[:, columns] = asked @ np.log(np.maximum(likely, TINY))
        return scores


class TopicEM(TopicModel):
    """A topic model whose mixtures and topics have Dirichlet priors, learned by MAP-EM.

    Args:
        mixture_prior: concentration of the prior of a mixture, less 1, at least 0.
        word_prior: concentration of the prior of a topic's words, less 1, at least 0.
        iterations: of EM, at most.
        tolerance: EM ends when the objective gains less than this share of its size.

    Attributes:
        objective: what EM raises, in nats, before each step.
    """

    mixture_prior: AtLeastZero = 0.1
    word_prior: AtLeastZero = 0.1
    iterations: Count = 60
    tolerance: float = 1e-5

    objective: list[float]

    def _climb(self, em_step: Callable[[], float]) -> None:
        """Runs EM; a step gives the objective before it."""
        self.topic_prior = self.mixture_prior
        self.objective = []
        with progress_of(self.name, self.iterations, self.progress) as task:
            for step in range(self.iterations):
                self.objective.append(em_step())
                task.update(step + 1, f"{self.objective[-1]:.4g} nats")
                gains = np.diff(self.objective[-2:])
                if (gains <= self.tolerance * abs(self.objective[-1])).any():
                    break


def fold_in(counts: sparse.csr_matrix, words: Floats, prior: float) -> Floats:
    """Mixtures of texts under fixed topics, by EM from equal shares.

    The likelihood with its prior is concave in the mixture, so the start does
    not decide where EM ends. The number of steps is fixed: a text's mixture
    does not depend on its company.

    Args:
        counts: `(texts, words)`.
        words: `p(w|z)`, `(words, topics)`.
        prior: what is added to the words of each topic, at least 0.

    Returns:
        `(texts, topics)`, rows sum to 1; a text without a word has equal shares.
    """
    shares = np.full((counts.shape[0], words.shape[1]), 1 / words.shape[1])
    for _ in range(_FOLDING_STEPS):
        ratio = ratios(counts, shares, words)
        shares = normalized(shares * (ratio @ words) + prior, axis=1)
    return shares


def ratios(counts: sparse.csr_matrix, shares: Floats, words: Floats) -> sparse.csr_matrix:
    """`count / sum over topics of p(w|z) p(z|d)` where there is a count: `(texts, words)`.

    Products with it are the sums over words and over texts of the posterior
    `p(z|d,w) = p(w|z) p(z|d) / sum over topics`, which is never held as a whole.
    """
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    likely = np.empty(len(rows))
    for start in range(0, len(rows), _ENTRIES):
        part = slice(start, start + _ENTRIES)
        likely[part] = np.einsum("nz,nz->n", shares[rows[part]], words[counts.indices[part]])
    ratio = counts.data / np.maximum(likely, 1e-300)
    return sparse.csr_matrix((ratio, counts.indices, counts.indptr), shape=counts.shape)


def normalized(weights: Floats, axis: int) -> Floats:
    """Weights that sum to 1 along an axis; equal ones where all are 0.

    >>> normalized(np.array([[3.0, 1.0], [0.0, 0.0]]), axis=1)
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    totals = weights.sum(axis=axis, keepdims=True)
    equal = np.full_like(weights, 1 / max(1, weights.shape[axis]))
    return np.divide(weights, totals, out=equal, where=totals > 0)


def log_prior(probabilities: Floats, pseudo_count: float) -> float:
    """Log of a symmetric Dirichlet prior, in nats, without its constant."""
    return pseudo_count * float(np.log(np.maximum(probabilities, TINY)).sum())


def first_texts(texts: int, topics: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A few texts for each topic, no text twice if there are enough: `(topics, few)`."""
    few = max(1, min(5, texts // topics))
    return np.resize(random.permutation(texts), (topics, few))


def first_topics(counts: sparse.csr_matrix, chosen: NDArray[np.int64]) -> Floats:
    """Where EM starts: each topic is half the words of a few texts, half those of all.

    Args:
        counts: `(texts, words)`.
        chosen: the texts of each topic, `(topics, few)`.

    Returns:
        `p(w|z)`, `(words, topics)`.
    """
    own = sum(counts[column].toarray() for column in chosen.T).T
    every = np.asarray(counts.sum(axis=0)).reshape(-1, 1)
    return normalized(own / np.maximum(own.sum(axis=0), 1) + every / every.sum(), axis=0)
