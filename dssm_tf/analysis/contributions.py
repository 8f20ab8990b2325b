"""Contributions of single words to the score of two texts, for any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_EXACT_WORDS = 10
"""Texts with up to this many words get exact values; longer ones have too many subsets."""

MAX_SCORED_TEXTS = 2_000
"""Approximate number of subsets that are scored for a longer text."""


def subsets(words: Sequence[str]) -> list[str]:
    """Each subset of a text's words as a text, in binary order; the first word is the highest bit.

    >>> subsets(["ice", "cream"])
    ['', 'cream', 'ice', 'ice cream']
    """
    texts: list[str] = [""]
    for word in reversed(words):
        texts += [f"{word} {text}".rstrip() for text in texts]
    return texts


def shapley(values: Array) -> Array:
    """The Shapley values of n players: marginal contributions averaged over all joining orders.

    Args:
        values: `(2,) * n`, the value of each coalition. Index 1 of an axis means that the
            player of that axis belongs to the coalition.

    Returns:
        `(n,)`. The sum is the value of the full coalition minus that of the empty one.

    Reference: Shapley 1953, "A value for n-person games".
    """
    players = values.ndim
    sizes = np.indices(values.shape).sum(axis=0)
    weights = np.array([1 / (players * comb(players - 1, size)) for size in range(players)])
    contributions = np.empty(players)
    for player in range(players):
        gains = np.diff(values, axis=player).squeeze(player)
        contributions[player] = np.sum(weights[np.take(sizes, 0, axis=player)] * gains)
    return contributions


def sampled_shapley(
    value: Callable[[Sequence[str]], Array], words: Sequence[str], texts: int = MAX_SCORED_TEXTS
) -> tuple[Array, Array]:
    """Shapley values over sampled word orders, for a text with too many subsets.

    Each order is paired with its reverse, which reduces the spread by half or more. In every order
    the contributions sum to the value of the full text minus that of the empty text. So does their
    mean.

    Args:
        value: returns the score of each text, `(texts,)`.
        words: the words of the text, at least one.
        texts: approximate number of texts to score. At least two orders and their reverses are
            used.

    Returns:
        The mean contributions `(words,)` and their standard errors `(words,)`.

    Reference: Castro et al. 2009, "Polynomial calculation of the Shapley value based on sampling".
    """
    generator = np.random.default_rng(0)  # a fixed seed, so that explanations are reproducible
    pairs = max(2, texts // (2 * len(words)))
    permutations = [generator.permutation(len(words)) for _ in range(pairs)]
    orders = np.array([order for forward in permutations for order in (forward, forward[::-1])])
    prefixes = [
        " ".join(words[position] for position in sorted(order[:size]))
        for order in orders
        for size in range(len(words) + 1)
    ]
    distinct = list(dict.fromkeys(prefixes))
    values = dict(zip(distinct, value(distinct), strict=True))
    gains = np.diff(np.array([values[text] for text in prefixes]).reshape(len(orders), -1), axis=1)
    contributions = np.empty_like(gains)
    np.put_along_axis(contributions, orders, gains, axis=1)
    means = contributions.reshape(pairs, 2, -1).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(pairs)


def word_contributions(
    value: Callable[[Sequence[str]], Array], words: Sequence[str]
) -> tuple[Array, Array | None]:
    """The Shapley value of each word among the words of its text.

    Args:
        value: returns the score of each text, `(texts,)`.
        words: the words of the text, at least one.

    Returns:
        The contributions `(words,)`, which sum to the value of the text minus that of the empty
        text, and their standard errors `(words,)`. The errors are None if the text has at most
        `MAX_EXACT_WORDS` words, because the values are then exact.
    """
    if len(words) > MAX_EXACT_WORDS:
        return sampled_shapley(value, words)
    values = np.asarray(value(subsets(words)), np.float64)
    return shapley(values.reshape((2,) * len(words))), None


def without_each(words: Sequence[str]) -> list[str]:
    """One text per word: all words but that one.

    >>> without_each(["ice", "cream"])
    ['cream', 'ice']
    """
    return [" ".join([*words[:position], *words[position + 1 :]]) for position in range(len(words))]


def leave_one_out_losses(values: Array) -> tuple[Array, Array, Array]:
    """How much score a pair of texts loses without each word, and the interactions of words.

    The interaction of a query word and a title word is the loss without the query word, minus that
    loss when the title word is missing too. It is large if the two words match each other.

    Args:
        values: `(1 + query words, 1 + title words)`. Row 0 has the full query, row i the query
            without its i-th word. Columns have the title likewise.

    Returns:
        Losses without each query word `(query words,)`, without each title word `(title words,)`,
        and interactions `(query words, title words)`.
    """
    loss = values[0] - values[1:]
    return loss[:, 0], values[0, 0] - values[0, 1:], loss[:, :1] - loss[:, 1:]
