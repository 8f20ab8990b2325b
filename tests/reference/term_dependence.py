"""The sequential dependence model and its concepts, one text and one word at a time, in float64.

Texts are lists of words; queries hold only words of the corpus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

Text = Sequence[str]


def ordered_count(text: Text, first: str, second: str) -> int:
    """How often `second` follows `first` directly."""
    return sum(text[i] == first and text[i + 1] == second for i in range(len(text) - 1))


def unordered_count(text: Text, first: str, second: str, width: int) -> int:
    """Number of positions of either word with the other among the `width - 1` words before."""
    count = 0
    for end, word in enumerate(text):
        before = text[max(0, end - width + 1) : end]
        other = {first: second, second: first}.get(word)
        count += other is not None and other in before
    return count


def feature(count: float, collection_count: float, length: int, total: int, mu: float) -> float:
    """Log of the Dirichlet-smoothed fraction of occurrences.

    A collection count of 0 is replaced by half an occurrence.
    """
    return math.log((count + mu * max(collection_count, 0.5) / total) / (length + mu))


def mrf(
    query: Text,
    title: Text,
    corpus: Sequence[Text],
    mu: float,
    weights: Sequence[float],
    width: int,
) -> float:
    """Metzler and Croft 2005: weighted features of words, ordered pairs and unordered pairs."""
    total = sum(map(len, corpus))

    def value(count):  # type: ignore[no-untyped-def]
        return feature(count(title), sum(map(count, corpus)), len(title), total, mu)

    words = sum(value(lambda text, w=word: list(text).count(w)) for word in query)
    pairs = list(pairwise(query))
    in_order = sum(value(lambda text, p=pair: ordered_count(text, *p)) for pair in pairs)
    near = sum(value(lambda text, p=pair: unordered_count(text, *p, width)) for pair in pairs)
    return weights[0] * words + weights[1] * in_order + weights[2] * near


def concepts(
    query: Text,
    corpus: Sequence[Text],
    mu: float,
    weights: Sequence[float],
    width: int,
    feedback_titles: int,
    count: int,
    icf_weight: float,
) -> dict[str, float]:
    """Metzler and Croft 2007: P(e | Q) of the best words of the best titles."""
    total = sum(map(len, corpus))
    scores = [mrf(query, title, corpus, mu, weights, width) for title in corpus]
    best = sorted(range(len(corpus)), key=lambda i: (-scores[i], i))[:feedback_titles]
    weight_of_word: dict[str, float] = {}
    for word in {word for i in best for word in corpus[i]}:
        collection_count = sum(list(title).count(word) for title in corpus)
        weight_of_word[word] = sum(
            math.exp(scores[i])
            * math.exp(
                feature(list(corpus[i]).count(word), collection_count, len(corpus[i]), total, mu)
            )
            * (total / collection_count) ** icf_weight
            for i in best
        )
    largest = sorted(weight_of_word, key=lambda word: (-weight_of_word[word], word))[:count]
    total_weight = sum(weight_of_word[word] for word in largest)
    return {word: weight_of_word[word] / total_weight for word in largest}
