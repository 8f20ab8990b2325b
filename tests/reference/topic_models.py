"""Topic models in float64, with an explicit posterior of every word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]


def plsa_objective(counts: Array, mixtures: Array, words: Array, a: float, b: float) -> float:
    """Log-likelihood plus log of Dirichlet priors with concentrations `a + 1` and `b + 1`."""
    total = a * np.log(mixtures).sum() + b * np.log(words).sum()
    for title in range(counts.shape[0]):
        for word in range(counts.shape[1]):
            if counts[title, word]:
                total += counts[title, word] * np.log(mixtures[title] @ words[word])
    return float(total)


def plsa_step(
    counts: Array, mixtures: Array, words: Array, a: float, b: float
) -> tuple[Array, Array]:
    """One step of MAP-EM: Hofmann 1999, equations 3-6, with pseudo-counts.

    Args:
        counts: `(titles, words)`.
        mixtures: `p(z|d)`, `(titles, topics)`.
        words: `p(w|z)`, `(words, topics)`.
        a: pseudo-count of each topic in each title.
        b: pseudo-count of each word in each topic.
    """
    posterior = mixtures[:, None, :] * words[None, :, :]  # (titles, words, topics)
    posterior /= posterior.sum(axis=2, keepdims=True)
    expected = counts[:, :, None] * posterior
    new_mixtures = expected.sum(axis=1) + a
    new_words = expected.sum(axis=0) + b
    return new_mixtures / new_mixtures.sum(axis=1, keepdims=True), new_words / new_words.sum(axis=0)


def coupled_posterior(
    mixture: Array, query_words_by_topic: Array, title_words_by_topic: Array
) -> tuple[Array, Array, float]:
    """The posterior of a pair that is nearest to the model's and has equal fractions on both sides.

    Minimizes `sum over words of KL(r || p)` over distributions `r`, by sequential quadratic
    programming on the primal problem.

    Args:
        mixture: `p(z)`, `(topics,)`.
        query_words_by_topic: `p(w|z)` of the query's words, `(words, topics)`.
        title_words_by_topic: `p(w|z)` of the title's words.

    Returns:
        `r` of the query, `r` of the title, and the divergence, in nats.
    """
    m, n, topics = len(query_words_by_topic), len(title_words_by_topic), len(mixture)
    model = np.concatenate([query_words_by_topic, title_words_by_topic]) * mixture
    model /= model.sum(axis=1, keepdims=True)

    def divergence(flat: Array) -> float:
        r = np.maximum(flat.reshape(m + n, topics), 1e-300)
        return float((r * np.log(r / model)).sum())

    def gradient(flat: Array) -> Array:
        r = np.maximum(flat.reshape(m + n, topics), 1e-300)
        return (np.log(r / model) + 1).ravel()

    def sums(flat: Array) -> Array:
        return flat.reshape(m + n, topics).sum(axis=1) - 1

    def fractions(flat: Array) -> Array:
        r = flat.reshape(m + n, topics)
        # The last topic's fraction follows from the others.
        return (r[:m].mean(axis=0) - r[m:].mean(axis=0))[:-1]

    start = np.full((m + n, topics), 1 / topics).ravel()
    result = minimize(
        divergence,
        start,
        jac=gradient,
        bounds=[(1e-12, 1)] * start.size,
        constraints=[{"type": "eq", "fun": sums}, {"type": "eq", "fun": fractions}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    r = result.x.reshape(m + n, topics)
    return r[:m], r[m:], float(result.fun)


def bltm_step(
    query_counts: Array,
    title_counts: Array,
    clicks: Array,
    mixtures: Array,
    query_words: Array,
    title_words: Array,
    a: float,
    b: float,
) -> tuple[Array, Array, Array, float]:
    """One step of MAP-EM on pairs, each of which is in the log `clicks` times.

    Args:
        query_counts: `(pairs, words)`, whole numbers.
        title_counts: `(pairs, words)`, whole numbers.
        clicks: `(pairs,)`.
        mixtures: `p(z)` of each pair, `(pairs, topics)`.
        query_words: `p(w|z)` of queries, `(words, topics)`.
        title_words: `p(w|z)` of titles, `(words, topics)`.
        a: pseudo-count of each topic in each pair.
        b: pseudo-count of each word in each topic.

    Returns:
        New mixtures, query words and title words; and the objective before the step, in nats.
    """
    new_mixtures = np.empty_like(mixtures)
    new_query, new_title = np.full_like(query_words, b), np.full_like(title_words, b)
    objective = b * np.log(query_words).sum() + b * np.log(title_words).sum()
    for pair, mixture in enumerate(mixtures):
        query = np.repeat(np.arange(len(query_words)), query_counts[pair].astype(int))
        title = np.repeat(np.arange(len(title_words)), title_counts[pair].astype(int))
        r_query, r_title, cost = coupled_posterior(mixture, query_words[query], title_words[title])
        new_mixtures[pair] = r_query.sum(axis=0) + r_title.sum(axis=0) + a
        np.add.at(new_query, query, clicks[pair] * r_query)
        np.add.at(new_title, title, clicks[pair] * r_title)
        likelihood = np.log(query_words[query] @ mixture).sum()
        likelihood += np.log(title_words[title] @ mixture).sum()
        objective += clicks[pair] * (likelihood - cost + a * np.log(mixture).sum())
    return (
        new_mixtures / new_mixtures.sum(axis=1, keepdims=True),
        new_query / new_query.sum(axis=0),
        new_title / new_title.sum(axis=0),
        float(objective),
    )
