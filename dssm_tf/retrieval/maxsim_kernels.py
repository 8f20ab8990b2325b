"""The inner loops of a search with the score maxsim, compiled by Numba.

All functions release the lock of the interpreter, so several threads search at once. They check no
bounds: `maxsim_files` checks the arrays of an index when it is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssm_tf.retrieval.candidate_kernels import best_titles as best_titles
from dssm_tf.retrieval.compiled import compiled

LEVELS = 127
"""The largest whole number of a rounded vector."""

WIDTH = 128
"""Rounded vectors are padded with zeros to a multiple of this length.

A compiled loop is 1.5 times faster if the number of its steps is a constant.
"""

_SUMS_IN_ANY_ORDER = {"reassoc", "contract"}


@compiled(fastmath=_SUMS_IN_ANY_ORDER)
def _cosine(first: Any, row: int, second: Any, other: int) -> Any:
    """The inner product of two rows of float32 matrices, in float32."""
    total = np.float32(0)
    for i in range(first.shape[1]):
        total += first[row, i] * second[other, i]
    return total


@compiled()
def _rounded_product(rounded: Any, row: int, rounded_query: Any, other: int) -> Any:
    """The inner product of rows of an int8 and an int16 matrix, in int32."""
    total = np.int32(0)
    for block in range(rounded.shape[1] // WIDTH):
        start = block * WIDTH
        for i in range(WIDTH):
            product = np.int32(rounded[row, start + i]) * np.int32(rounded_query[other, start + i])
            total = np.int32(total + product)
    return total


@compiled()
def _round(vectors: Any, width: int, error: float, rounding: float) -> Any:
    """Rounds vectors to compare them with rounded ones.

    Args:
        vectors: float32 `(rows, dimension)`, of length 1 or 0.
        width: the padded length of the other rounded vectors.
        error: the length of the largest difference between the other rounded vectors and their
            exact ones.
        rounding: of a product in float32.

    Returns:
        int16 `(rows, width)`; float32 `(rows,)`, by which the rows are multiplied; float32
        `(rows,)`, the largest difference between a product and the exact cosine.
    """
    count, dimension = vectors.shape
    rounded_query = np.zeros((count, width), np.int16)
    scales, margins = np.empty(count, np.float32), np.empty(count, np.float32)
    for row in range(count):
        scale = np.abs(vectors[row]).max() / np.float32(LEVELS)
        square = np.float32(0)
        for i in range(dimension):
            if scale > 0:
                rounded_query[row, i] = np.int16(np.rint(vectors[row, i] / scale))
            square += (vectors[row, i] - rounded_query[row, i] * scale) ** 2
        scales[row] = scale
        margins[row] = error + np.sqrt(square) * (1 + error) + rounding
    return rounded_query, scales, margins


@compiled()
def most_similar(
    vectors: Any,
    rounded: Any,
    scales: Any,
    error: float,
    vector: Any,
    threshold: float,
    limit: int,
    rounding: float,
) -> Any:
    """The vectors that are most similar to another one, see `RoundedVectors`.

    Args:
        vectors: float32 `(rows, dimension)`.
        rounded: int8 `(rows, width)`, the same vectors, with zeros after the dimension.
        scales: float32 `(rows,)`, by which the rounded rows are multiplied.
        error: the length of the largest difference between a rounded row and its exact vector.
        vector: float32 `(1, dimension)`, a unit vector.
        threshold: cosines up to this value are similarity 0.
        limit: the number of vectors.
        rounding: of a product in float32.

    Returns:
        int64 rows and float32 similarities above 0, at most `limit`, most similar first; of equal
        ones, the first rows first.
    """
    rows = _rows_near(rounded, scales, error, vector, threshold, limit, rounding)
    similarities = np.empty(len(rows), np.float32)
    for i in range(len(rows)):
        cosine = 0.0  # the sums of equal vectors are equal
        for j in range(vectors.shape[1]):
            cosine += np.float64(vector[0, j]) * np.float64(vectors[rows[i], j])
        similarities[i] = min(max(cosine - threshold, 0.0) / (1 - threshold), 1.0)
    order = np.argsort(-similarities, kind="mergesort")[:limit]  # it is stable
    count = 0
    while count < len(order) and similarities[order[count]] > 0:
        count += 1
    return rows[order[:count]], similarities[order[:count]]


@compiled()
def _rows_near(
    rounded: Any, scales: Any, error: float, vector: Any, cosine: float, limit: int, rounding: float
) -> Any:
    """The rows that may be among the most similar ones; see `most_similar`.

    Args:
        rounded: see `most_similar`; so are the arguments without a description.
        scales: see `rounded`.
        error: see `rounded`.
        vector: see `rounded`.
        cosine: the lowest cosine.
        limit: see `rounded`.
        rounding: see `rounded`.

    Returns:
        int64, ascending: at least the `limit` rows of highest cosine above the lowest one.
    """
    rounded_query, vector_scales, margins = _round(vector, rounded.shape[1], error, rounding)
    scale, margin = vector_scales[0], margins[0]
    # A loop without branches is several times faster.
    cosines = np.empty(len(rounded), np.float32)
    for row in range(len(rounded)):
        cosines[row] = (
            np.float32(_rounded_product(rounded, row, rounded_query, 0)) * scales[row] * scale
        )
    rows = np.empty(len(rounded), np.int64)
    lowest, count = np.float32(cosine - margin), 0
    for row in range(len(rounded)):
        if cosines[row] > lowest:
            rows[count], cosines[count] = row, cosines[row]
            count += 1
    if count > limit:
        # The exact cosines of `limit` rows are above this one minus the margin.
        lowest = np.partition(cosines[:count], count - limit)[count - limit] - 2 * margin
        near = 0
        for i in range(count):
            if cosines[i] >= lowest:
                rows[near] = rows[i]
                near += 1
        count = near
    return rows[:count]


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
    set_ends: Any,
    set_rows: Any,
    set_similarities: Any,
    threshold: float,
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
        rounded: see `most_similar`; so are `scales`, `error` and `rounding`.
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
        set_ends: int64 `(query words,)`, the end of each query word's entries in `set_rows`.
        set_rows: int64, rows of words whose similarity to the query word is set by a rule.
        set_similarities: float32, these similarities.
        threshold: cosines up to this value are similarity 0.

    Returns:
        float32 `(len(titles),)`.
    """
    words = len(query_vectors)
    rounded_query, query_scales, margins = _round(query_vectors, rounded.shape[1], error, rounding)
    entries = 0
    for title in titles:
        entries += title_starts[title + 1] - title_starts[title]
    # Titles share many words: the similarities of a word are computed once.
    entry_of_word = np.full(len(title_weights), -1, np.int32)
    similarities = np.empty((entries, words), np.float32)
    highest = np.empty(entries, np.float32)
    computed = 0
    divisor = 1 - threshold
    scores = np.empty(len(titles), np.float32)
    best = np.empty(words, np.float32)
    for i in range(len(titles)):
        title = titles[i]
        best[:] = 0
        query_side = title_side = 0.0
        for j in range(title_starts[title], title_starts[title + 1]):
            row = title_words[j]
            entry = entry_of_word[row]
            if entry < 0:
                entry = entry_of_word[row] = computed
                computed += 1
                highest[entry] = 0
                for word in range(words):
                    product = np.float32(_rounded_product(rounded, row, rounded_query, word))
                    similarity = np.float32(0)
                    if product * scales[row] * query_scales[word] > threshold - margins[word]:
                        cosine = _cosine(vectors, row, query_vectors, word)
                        similarity = max(similarity, np.float32((cosine - threshold) / divisor))
                    for k in range(set_ends[word - 1] if word else 0, set_ends[word]):
                        if set_rows[k] == row:
                            similarity = set_similarities[k]
                    similarities[entry, word] = similarity
                    highest[entry] = max(highest[entry], similarity)
            if highest[entry] > 0:  # most are not
                for word in range(words):
                    best[word] = max(best[word], similarities[entry, word])
                title_side += title_weights[row] * highest[entry]
        for word in range(words):
            query_side += query_weights[word] * best[word]
        for j in range(title_pair_starts[title], title_pair_starts[title + 1]):
            for pair in range(len(pairs)):
                if pairs[pair] == title_pairs[j]:
                    query_side += pair_query_weights[pair]
                    title_side += pair_title_weights[pairs[pair]]
        scores[i] = query_side + title_side * inverse_totals[title]
        scores[i] += priors[title]
    return scores
