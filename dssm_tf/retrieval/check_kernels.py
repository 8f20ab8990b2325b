"""Checks of the lists of an index, compiled by Numba: each array is read once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dssm_tf.retrieval.compiled import compiled

VALID, FALSE_STARTS, OUT_OF_RANGE, NOT_INCREASING = range(4)
"""The results of `check_lists`."""


@compiled()
def check_lists(starts: Any, items: Any, limit: int) -> int:
    """Whether lists, one after another in one array, have increasing items from 0 to below `limit`.

    Args:
        starts: int64 `(lists + 1,)`, the start of each list, and the number of all items.
        items: int32, the items of all lists.
        limit: above the largest possible item.

    Returns:
        `VALID`, `FALSE_STARTS`, `OUT_OF_RANGE` or `NOT_INCREASING`.
    """
    size = len(items)
    if starts[0] != 0 or starts[-1] != size:
        return 1
    for row in range(len(starts) - 1):
        if starts[row + 1] < starts[row]:
            return 1
    lowest, highest = 0, -1
    for position in range(size):
        lowest, highest = min(lowest, items[position]), max(highest, items[position])
    if lowest < 0 or highest >= limit:
        return 2
    for row in range(len(starts) - 1):
        for position in range(starts[row] + 1, starts[row + 1]):
            if items[position] <= items[position - 1]:
                return 3
    return 0


@compiled()
def sum_of_products(factors: Any, starts: Any, factors_of_items: Any, items: Any) -> Any:
    """The sum of the products of each list's factor and each of its items' factors, modulo 2^64.

    Args:
        factors: uint64, the factor of each list.
        starts: see `check_lists`.
        factors_of_items: uint64, the factor of each item.
        items: see `check_lists`.
    """
    total = np.uint64(0)
    for row in range(len(starts) - 1):
        sum_of_list = np.uint64(0)
        for position in range(starts[row], starts[row + 1]):
            sum_of_list += factors_of_items[items[position]]
        total += factors[row] * sum_of_list
    return total


@compiled()
def range_of_side_weights(
    word_starts: Any,
    words: Any,
    word_weights: Any,
    pair_starts: Any,
    pairs: Any,
    pair_weights: Any,
    inverse_totals: Any,
) -> Any:
    """The smallest and the largest product of a title's total weight and inverse total.

    Args:
        word_starts: int64 `(titles + 1,)`, the start of each title's words.
        words: int32, the rows of the words of all titles.
        word_weights: float32 `(words,)`.
        pair_starts: int64 `(titles + 1,)`, the start of each title's pairs.
        pairs: int32, the rows of the pairs of all titles.
        pair_weights: float64 `(pairs,)`.
        inverse_totals: float32 `(titles,)`.

    Returns:
        Two float64; infinity and minus infinity if no title has a word.
    """
    lowest, highest = np.inf, -np.inf
    for title in range(len(inverse_totals)):
        if word_starts[title] == word_starts[title + 1]:
            continue
        total = 0.0
        for position in range(word_starts[title], word_starts[title + 1]):
            total += word_weights[words[position]]
        for position in range(pair_starts[title], pair_starts[title + 1]):
            total += pair_weights[pairs[position]]
        product = total * inverse_totals[title]
        lowest, highest = min(lowest, product), max(highest, product)
    return lowest, highest
