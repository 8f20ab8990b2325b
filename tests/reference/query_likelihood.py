"""Query likelihood in float64, word by word: Zhai and Lafferty 2001, Wei and Croft 2006."""

from __future__ import annotations

from collections import Counter
from math import log

from numpy.typing import ArrayLike


def dirichlet(word: str, title: list[str], collection: Counter[str], mu: float) -> float:
    """`p(w|D)` with a Dirichlet prior of size `mu` whose mean is the collection."""
    fraction = collection[word] / sum(collection.values())
    return (title.count(word) + mu * fraction) / (len(title) + mu)


def unigram_score(query: list[str], title: list[str], collection: Counter[str], mu: float) -> float:
    """Log-likelihood of the query's words that are in the collection, in nats."""
    known = [word for word in query if word in collection]
    return sum(log(dirichlet(word, title, collection, mu)) for word in known)


def topic_score(
    query: list[str],
    title: list[str],
    collection: Counter[str],
    mu: float,
    weight: float,
    words: list[str],
    word_given_topic: ArrayLike,
    topic_given_title: ArrayLike,
) -> float:
    """Wei and Croft 2006: a mixture of the topics and of `dirichlet`.

    Args:
        query: words of the query.
        title: words of the title.
        collection: counts of words.
        mu: size of the prior.
        weight: weight of the topics.
        words: the rows of `word_given_topic`.
        word_given_topic: `(words, topics)`.
        topic_given_title: `(topics,)`.
    """
    total = 0.0
    for word in query:
        if word not in words:
            continue
        row = word_given_topic[words.index(word)]
        topical = sum(p * q for p, q in zip(row, topic_given_title, strict=True))
        lexical = dirichlet(word, title, collection, mu)
        total += log((1 - weight) * lexical + weight * topical)
    return total
