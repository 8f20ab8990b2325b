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

MOST_TEXTS = 2_000
"""Then so many of them are looked at."""


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


def drawn_contributions(
    value: Callable[[Sequence[str]], Array], words: Sequence[str], texts: int = MOST_TEXTS
) -> tuple[Array, float]:
    """Shapley values over orders drawn by lot, for a text with too many subsets.

    Orders come in pairs, each with its reverse, which halves the spread or better. In every order
    the values sum to what the whole text is worth less what the empty one is, so their mean does.

    Args:
        value: what texts are worth, `(texts,)`.
        words: of the text, at least one.
        texts: about so many are looked at; two pairs of orders at least.

    Returns:
        `(words,)`, and the largest standard error among them.

    Reference: Castro et al. 2009, "Polynomial calculation of the Shapley value based on sampling".
    """
    generator = np.random.default_rng(0)  # the same explanation each time
    pairs = max(2, texts // (2 * len(words)))
    orders: list[NDArray[np.intp]] = []
    for _ in range(pairs):
        drawn = generator.permutation(len(words))
        orders += [drawn, drawn[::-1]]
    joined = [
        " ".join(words[place] for place in sorted(order[:size]))
        for order in orders
        for size in range(len(words) + 1)
    ]
    distinct = list(dict.fromkeys(joined))
    worth = dict(zip(distinct, np.asarray(value(distinct), np.float64), strict=True))
    gains = np.diff(np.array([worth[text] for text in joined]).reshape(len(orders), -1), axis=1)
    found = np.empty_like(gains)
    for row, order in enumerate(orders):
        found[row, order] = gains[row]
    means = found.reshape(pairs, 2, -1).mean(axis=1)
    return means.mean(axis=0), float(means.std(axis=0, ddof=1).max() / np.sqrt(pairs))


def without_each(words: Sequence[str]) -> list[str]:
    """The text as often as it has words, each time without one of them.

    >>> without_each(["ice", "cream"])
    ['cream', 'ice']
    """
    return [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]


def occlusion(queries: Array, titles: Array) -> tuple[Array, Array, Array]:
    """What a cosine loses without a word, and what two words lose or gain it together.

    Args:
        queries: vectors `(1 + query words, dimension)`, of the query and of it without each word.
        titles: likewise `(1 + title words, dimension)`.

    Returns:
        As `losses`.
    """
    return losses(queries @ titles.T)


def losses(worth: Array) -> tuple[Array, Array, Array]:
    """What a pair of texts loses without each word, and what two words lose or gain it together.

    A pair's value is what the query's word is worth beside the title's word less what it is worth
    without that: large for two words that match each other.

    Args:
        worth: `(1 + query words, 1 + title words)`: of the query, and of it without each word,
            with the title, and with it without each word.

    Returns:
        Of the query's words `(query words,)`, of the title's `(title words,)`, and of pairs
        `(query words, title words)`.
    """
    lost = worth[0] - worth[1:]
    return lost[:, 0], worth[0, 0] - worth[0, 1:], lost[:, :1] - lost[:, 1:]
