"""The inner loops of a search with the score maxsim, compiled by Numba.

All functions release the lock of the interpreter, so several threads search at once. They check no
bounds: `array_checks` checks the arrays of an index when it is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssm_tf.retrieval.candidate_kernels import best_titles as best_titles
from dssm_tf.retrieval.check_kernels import FALSE_STARTS as FALSE_STARTS
from dssm_tf.retrieval.check_kernels import NOT_INCREASING as NOT_INCREASING
from dssm_tf.retrieval.check_kernels import OUT_OF_RANGE as OUT_OF_RANGE
from dssm_tf.retrieval.check_kernels import check_lists as check_lists
from dssm_tf.retrieval.check_kernels import range_of_side_weights as range_of_side_weights
from dssm_tf.retrieval.check_kernels import sum_of_products as sum_of_products
from dssm_tf.retrieval.compiled import compiled, prefetch
from dssm_tf.retrieval.rounded_kernels import LEVELS as LEVELS
from dssm_tf.retrieval.rounded_kernels import WIDTH as WIDTH
from dssm_tf.retrieval.rounded_kernels import most_similar as most_similar
from dssm_tf.retrieval.rounded_kernels import round_vectors, rounded_product
from dssm_tf.retrieval.rounded_kernels import word_features as word_features

_CACHE_LINE = 64  # bytes that a CPU loads at once
_AHEAD = 8  # words of titles whose vectors are loaded while others are compared

_SUMS_IN_ANY_ORDER = {"reassoc", "contract"}


@compiled(fastmath=_SUMS_IN_ANY_ORDER)
def _inner_product(first: Any, row: int, second: Any, other: int) -> Any:
    """The inner product of two rows of float32 matrices, in float32."""
    total = np.float32(0)
    for i in range(first.shape[1]):
        total += first[row, i] * second[other, i]
    return total


@compiled()
def exact_scores(
    title_starts: Any,
    title_words: Any,
    title_pair_starts: Any,
    title_pairs: Any,
    vectors: Any,
    rounded: Any,
    scales: Any,
    error: float,
    rounding: float,
    title_weights: Any,
    pair_title_weights: Any,
    inverse_totals: Any,
    priors: Any,
    titles: Any,
    query_vectors: Any,
    query_weights: Any,
    pairs: Any,
    pair_query_weights: Any,
    rule_ends: Any,
    rule_rows: Any,
    rule_similarities: Any,
    threshold: float,
    text_vectors: Any,
    text_scales: Any,
    query_text_vector: Any,
) -> Any:
    """The scores of some titles by the full formula, with the prior.

    Most words of titles are not similar to a word of the query. Rounded vectors are enough to find
    that out, and a quarter of the memory is read.

    Args:
        title_starts: the start of each title's words in `title_words`, int64 `(titles + 1,)`.
        title_words: int32, rows of words.
        title_pair_starts: the same for pairs.
        title_pairs: the same for pairs.
        vectors: float32 `(words, dimension)`, unit vectors.
        rounded: see `rounded_kernels.most_similar`; so are `scales`, `error` and `rounding`.
        scales: see `rounded`.
        error: see `rounded`.
        rounding: see `rounded`.
        title_weights: float32 `(words,)`, the weight of each word in a title.
        pair_title_weights: float64 `(pairs,)`.
        inverse_totals: float32 `(titles,)`, `k1` divided by the sum of the title's weights.
        priors: float32 `(titles,)`.
        titles: int32, the titles to score.
        query_vectors: float32 `(query words, dimension)`.
        query_weights: float64 `(query words,)`, `k0 * a(w)` divided by the sum of the query's
            weights.
        pairs: int64, rows of the query's pairs that titles have.
        pair_query_weights: float64, the same for pairs.
        rule_ends: int64 `(query words,)`, the end of each query word's entries in `rule_rows`.
        rule_rows: int64, rows of words whose similarity to the query word is set by a rule.
        rule_similarities: float32, these similarities.
        threshold: cosines up to this value are similarity 0.
        text_vectors: float32 `(words, dimension of texts)`, second vectors times weights in titles.
        text_scales: float32 `(titles,)`, by which the sum of the products of a title's
            `text_vectors` and the query's vector is multiplied.
        query_text_vector: float32 `(dimension of texts,)`, the unit vector of the query.

    Returns:
        float32 `(len(titles),)`.
    """
    words = len(query_vectors)
    _read_ahead(
        title_starts, title_words, title_pair_starts, title_pairs, inverse_totals, priors, titles
    )
    rows, entry_of_word = _distinct_words(title_starts, title_words, titles, len(title_weights))
    similarities, highest = _similarities(
        rows, vectors, rounded, scales, error, rounding, title_weights, query_vectors,
        rule_ends, rule_rows, rule_similarities, threshold,
    )  # fmt: skip
    products = _text_products(rows, text_vectors, query_text_vector)
    scores = np.empty(len(titles), np.float32)
    best = np.empty(words, np.float32)
    for i in range(len(titles)):
        title = titles[i]
        best[:] = 0
        query_side = title_side = text_product = 0.0
        for j in range(title_starts[title], title_starts[title + 1]):
            entry = entry_of_word[title_words[j]]
            text_product += products[entry]
            if highest[entry] > 0:  # most are not
                for word in range(words):
                    best[word] = max(best[word], similarities[entry, word])
                title_side += title_weights[title_words[j]] * highest[entry]
        for word in range(words):
            query_side += query_weights[word] * best[word]
        for j in range(title_pair_starts[title], title_pair_starts[title + 1]):
            for pair in range(len(pairs)):
                if pairs[pair] == title_pairs[j]:
                    query_side += pair_query_weights[pair]
                    title_side += pair_title_weights[pairs[pair]]
        scores[i] = query_side + title_side * inverse_totals[title]
        scores[i] += text_product * text_scales[title]
        scores[i] += priors[title]
    return scores


@compiled()
def _text_products(rows: Any, text_vectors: Any, query_text_vector: Any) -> Any:
    """The inner products of a query's text vector and the second vectors of words of titles.

    Args:
        rows: int32, the rows of the words; see `exact_scores` for the other arguments.
        text_vectors: see `rows`.
        query_text_vector: see `rows`.

    Returns:
        float32 `(rows,)`; all 0 without text vectors.
    """
    products = np.zeros(len(rows), np.float32)
    dimension = len(query_text_vector)
    if dimension == 0:
        return products
    query, numbers = query_text_vector.reshape(1, dimension), text_vectors.reshape(-1)
    for entry in range(len(rows)):
        later_row = rows[min(entry + _AHEAD, len(rows) - 1)]
        for i in range(0, dimension, _CACHE_LINE // 4):
            prefetch(numbers, later_row * dimension + i)
        products[entry] = _inner_product(text_vectors, rows[entry], query, 0)
    return products


@compiled()
def _read_ahead(
    title_starts: Any,
    title_words: Any,
    title_pair_starts: Any,
    title_pairs: Any,
    inverse_totals: Any,
    priors: Any,
    titles: Any,
) -> None:
    """Asks the CPU to load what `exact_scores` reads of some titles; see there for the arguments.

    The loads overlap, because none waits for another one.
    """
    for title in titles:
        prefetch(title_starts, title)
        prefetch(title_pair_starts, title)
        prefetch(inverse_totals, title)
        prefetch(priors, title)
    for title in titles:
        prefetch(title_words, title_starts[title])
        prefetch(title_words, title_starts[title + 1])
        prefetch(title_pairs, title_pair_starts[title])


@compiled()
def _distinct_words(title_starts: Any, title_words: Any, titles: Any, words: int) -> Any:
    """The distinct words of some titles: their similarities are computed once.

    Args:
        title_starts: see `exact_scores`; so are `title_words` and `titles`.
        title_words: see `title_starts`.
        titles: see `title_starts`.
        words: the number of words of all titles.

    Returns:
        int32, the row of each distinct word; int32 `(words,)`, the index of each word in these
        rows, -1 for the other words.
    """
    entries = 0
    for title in titles:
        entries += title_starts[title + 1] - title_starts[title]
    entry_of_word = np.full(words, -1, np.int32)
    rows = np.empty(entries, np.int32)
    count = 0
    for title in titles:
        for j in range(title_starts[title], title_starts[title + 1]):
            row = title_words[j]
            if entry_of_word[row] < 0:
                entry_of_word[row] = count
                rows[count] = row
                count += 1
    return rows[:count], entry_of_word


@compiled()
def _similarities(
    rows: Any,
    vectors: Any,
    rounded: Any,
    scales: Any,
    error: float,
    rounding: float,
    title_weights: Any,
    query_vectors: Any,
    rule_ends: Any,
    rule_rows: Any,
    rule_similarities: Any,
    threshold: float,
) -> Any:
    """The similarities of some words of titles to the words of a query.

    Args:
        rows: int32, the rows of the words of titles; see `exact_scores` for the other arguments.
        vectors: see `rows`.
        rounded: see `rows`.
        scales: see `rows`.
        error: see `rows`.
        rounding: see `rows`.
        title_weights: see `rows`.
        query_vectors: see `rows`.
        rule_ends: see `rows`.
        rule_rows: see `rows`.
        rule_similarities: see `rows`.
        threshold: see `rows`.

    Returns:
        float32 `(rows, query words)`; float32 `(rows,)`, the highest of each row.
    """
    count, words, width, dimension = (
        len(rows),
        len(query_vectors),
        rounded.shape[1],
        vectors.shape[1],
    )
    rounded_query, query_scales, margins = round_vectors(query_vectors, width, error, rounding)
    rounded_numbers, numbers = rounded.reshape(rounded.size), vectors.reshape(vectors.size)
    # The pairs of words whose exact cosine may be above the threshold.
    near_entries, near_words = np.empty(count * words, np.int32), np.empty(count * words, np.int32)
    near = 0
    for entry in range(count):
        row, later_row, first = rows[entry], rows[min(entry + _AHEAD, count - 1)], near
        prefetch(scales, later_row)
        for i in range(0, width, _CACHE_LINE):
            prefetch(rounded_numbers, later_row * width + i)
        for word in range(words):
            product = np.float32(rounded_product(rounded, row, rounded_query, word))
            if product * scales[row] * query_scales[word] > threshold - margins[word]:
                near_entries[near], near_words[near] = entry, word
                near += 1
        if near > first:
            prefetch(title_weights, row)
            for i in range(0, dimension, _CACHE_LINE // 4):
                prefetch(numbers, row * dimension + i)
    similarities, highest = np.zeros((count, words), np.float32), np.zeros(count, np.float32)
    for i in range(near):
        entry, word = near_entries[i], near_words[i]
        cosine = _inner_product(vectors, rows[entry], query_vectors, word)
        similarity = np.float32((cosine - threshold) / (1 - threshold))
        similarities[entry, word] = max(np.float32(0), similarity)
    for word in range(words):
        for k in range(rule_ends[word - 1] if word else 0, rule_ends[word]):
            for entry in range(count):
                if rows[entry] == rule_rows[k]:
                    similarities[entry, word] = rule_similarities[k]
    for entry in range(count):
        for word in range(words):
            highest[entry] = max(highest[entry], similarities[entry, word])
    return similarities, highest
