"""What each word of a text adds to its cosine with another, of any model that encodes texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Encode = Callable[[Sequence[str]], NDArray[np.floating[Any]]]
"""Raw texts to their vectors, of length one or zero, `(texts, dimension)`."""

MOST_WORDS = 10
"""With more words than these, there are too many subsets to encode all of them."""


def subsets(words: Sequence[str]) -> list[str]:
    """Each subset of a text's words as a text; in the order of bits, the first word's highest.

    >>> subsets(["ice", "cream"])
    ['', 'cream', 'ice', 'ice cream']
    """
    texts: list[str] = [""]
    for word in reversed(words):
        texts += [f"{word} {text}".rstrip() for text in texts]
    return texts


def shapley(values: Array) -> Array:
    """What each of n players adds to a game, in the mean over all orders in which they may come.

    Args:
        values: `(2,) * n`: what each coalition is worth; index 1 of an axis where the player of
            that axis belongs to it.

    Returns:
        `(n,)`; their sum is what all are worth less what nobody is.

    Reference: Shapley 1953, "A value for n-person games".
    """
    players = values.ndim
    sizes = np.indices(values.shape).sum(axis=0)
    weights = np.array([1 / (players * comb(players - 1, size)) for size in range(players)])
    found = np.empty(players)
    for player in range(players):
        gains = np.diff(values, axis=player).squeeze(player)
        found[player] = np.sum(weights[np.take(sizes, 0, axis=player)] * gains)
    return found


def word_contributions(encode: Encode, words: Sequence[str], other: Array) -> Array:
    """What each word adds to a cosine: its Shapley value among the text's words.

    A text without words has cosine 0, so the values sum to the cosine.

    Args:
        encode: the text's side.
        words: of the text, at most `MOST_WORDS`.
        other: the other text's vector `(dimension,)`.

    Returns:
        `(words,)`.
    """
    cosines = np.asarray(encode(subsets(words)), np.float64) @ other
    return shapley(cosines.reshape((2,) * len(words)))


def without_each(words: Sequence[str]) -> list[str]:
    """The text as often as it has words, each time without one of them.

    >>> without_each(["ice", "cream"])
    ['cream', 'ice']
    """
    return [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]


def occlusion(queries: Array, titles: Array) -> tuple[Array, Array, Array]:
    """What a cosine loses without a word, and what two words lose or gain it together.

    A pair's value is what the query's word is worth beside the title's word less what it is worth
    without that: large for two words that match each other.

    Args:
        queries: vectors `(1 + query words, dimension)`, of the query and of it without each word.
        titles: likewise `(1 + title words, dimension)`.

    Returns:
        Of the query's words `(query words,)`, of the title's `(title words,)`, and of pairs
        `(query words, title words)`.
    """
    cosines = queries @ titles.T
    lost = cosines[0] - cosines[1:]
    return lost[:, 0], cosines[0, 0] - cosines[0, 1:], lost[:, :1] - lost[:, 1:]
