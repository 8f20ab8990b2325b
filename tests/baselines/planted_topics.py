"""Click logs generated from known topics, to test whether a model recovers them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TOPICS = 4
WORDS = 8  # of each topic and side


def planted_clicks(pairs: int, seed: int, mixing: float = 0.1) -> list[tuple[str, str, float]]:
    """Clicks whose query and title have words of one topic; the two sides have different words.

    Args:
        pairs: number of clicks.
        seed: seed of the random words.
        mixing: probability that a word is of a random topic.
    """
    random = np.random.default_rng(seed)

    def text(topic: int, side: str, length: int) -> str:
        mixed = random.random(length) < mixing
        word_topics = np.where(mixed, random.integers(0, TOPICS, length), topic)
        words = random.integers(0, WORDS, length)
        return " ".join(f"{side}{t}x{w}" for t, w in zip(word_topics, words, strict=True))

    topics = random.integers(0, TOPICS, pairs)
    return [(text(topic, "q", 4), text(topic, "t", 8), 1.0) for topic in topics]


def purity(words: tuple[str, ...], topic_words: NDArray[np.float64]) -> list[float]:
    """How well each planted topic is recovered, from 0 to 1.

    Args:
        words: the words of the rows of `topic_words`.
        topic_words: `p(w|z)` of the learned topics, `(words, topics)`.

    Returns:
        For each planted topic the probability of its words in the learned topic that has most of
        them; 0 if that learned topic is also the best one of another planted topic.
    """
    planted = np.array([int(word[1]) for word in words]) == np.arange(TOPICS)[:, None]
    table = planted @ topic_words  # (planted topics, learned topics)
    best = table.argmax(axis=1)
    unique = np.bincount(best)[best] == 1
    return (table.max(axis=1) * unique).tolist()
