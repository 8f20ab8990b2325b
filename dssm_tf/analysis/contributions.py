"""What each word of a text adds to its score with another text, for any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_WORDS = 10
"""A text of more words has too many subsets to evaluate all of them."""

MOST_TEXTS = 2_000
"""So many of them are evaluated then."""


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
    """What each of n players adds to a game, averaged over all orders in which they can join.

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


def sampled_shapley(
    value: Callable[[Sequence[str]], Array], words: Sequence[str], texts: int = MOST_TEXTS
) -> tuple[Array, Array]:
    """Shapley values over sampled orders, for a text with too many subsets.

    Orders come in pairs, each with its reverse, which halves the spread or better. In every order
    the values sum to what the whole text is worth less what the empty one is, so their mean does.

    Args:
        value: what texts are worth, `(texts,)`.
        words: of the text, at least one.
        texts: about so many are evaluated; two pairs of orders at least.

    Returns:
        `(words,)`, and the standard errors of these means `(words,)`.

    Reference: Castro et al. 2009, "Polynomial calculation of the Shapley value based on sampling".
    """
    generator = np.random.default_rng(0)  # the same explanation each time
    pairs = max(2, texts // (2 * len(words)))
    drawn = [generator.permutation(len(words)) for _ in range(pairs)]
    orders = np.array([order for one in drawn for order in (one, one[::-1])])
    joined = [
        " ".join(words[place] for place in sorted(order[:size]))
        for order in orders
        for size in range(len(words) + 1)
    ]
    distinct = list(dict.fromkeys(joined))
    worth = dict(zip(distinct, value(distinct), strict=True))
    gains = np.diff(np.array([worth[text] for text in joined]).reshape(len(orders), -1), axis=1)
    found = np.empty_like(gains)
    np.put_along_axis(found, orders, gains, axis=1)
    means = found.reshape(pairs, 2, -1).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(pairs)


def word_contributions(
    value: Callable[[Sequence[str]], Array], words: Sequence[str]
) -> tuple[Array, Array | None]:
    """What each word adds to a text's value: its Shapley value among the text's words.

    Args:
        value: what texts are worth, `(texts,)`.
        words: of the text, at least one.

    Returns:
        `(words,)`, whose sum is what the text is worth less what an empty one is; and their
        standard errors `(words,)`, None if the text is short enough for exact values.
    """
    if len(words) > MOST_WORDS:
        return sampled_shapley(value, words)
    worth = np.asarray(value(subsets(words)), np.float64)
    return shapley(worth.reshape((2,) * len(words))), None


def without_each(words: Sequence[str]) -> list[str]:
    """The text as often as it has words, each time without one of them.

    >>> without_each(["ice", "cream"])
    ['cream', 'ice']
    """
    return [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]


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
