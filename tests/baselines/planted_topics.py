"""Click logs made from topics that are known, to see whether a model finds them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TOPICS = 4
WORDS = 8  # of each topic and side


def planted_clicks(pairs: int, seed: int, mixing: float = 0.1) -> list[tuple[str, str, float]]:
    """Clicks whose query and title draw from one topic, its words different on both sides.

    Args:
        pairs: how many.
        seed: of the draws.
        mixing: chance that a word is of another topic.
    """
    random = np.random.default_rng(seed)

    def text(topic: int, side: str, length: int) -> str:
        of = np.where(random.random(length) < mixing, random.integers(0, TOPICS, length), topic)
        which = random.integers(0, WORDS, length)
        return " ".join(f"{side}{t}x{w}" for t, w in zip(of, which, strict=True))

    topics = random.integers(0, TOPICS, pairs)
    return [(text(topic, "q", 4), text(topic, "t", 8), 1.0) for topic in topics]


def purity(words: tuple[str, ...], word_given_topic: NDArray[np.float64]) -> list[float]:
    """For each planted topic, the largest share of a found topic that its words take.

    Args:
        words: rows of `word_given_topic`.
        word_given_topic: `p(w|z)`, `(words, topics)`.

    Returns:
        One share a planted topic, 0 where two planted topics share a found one.
    """
    planted = np.array([int(word[1]) for word in words]) == np.arange(TOPICS)[:, None]
    table = planted @ word_given_topic  # (planted, found)
    best = table.argmax(axis=1)
    alone = np.bincount(best)[best] == 1
    return (table.max(axis=1) * alone).tolist()
