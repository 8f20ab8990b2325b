"""Vectors of words, and the most similar ones among rounded vectors, compiled by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from dssm_tf.retrieval.compiled import compiled

LEVELS = 127
"""The largest whole number of a rounded vector."""

WIDTH = 128
"""Rounded vectors are padded with zeros to a multiple of this length.

A compiled loop is 1.5 times faster if the number of its steps is a constant.
"""

_BLOCK = 512  # rounded vectors that are compared at once


@compiled()
def rounded_product(rounded: Any, row: int, rounded_query: Any, other: int) -> Any:
    """The inner product of rows of an int8 and an int16 matrix, in int32."""
    total = np.int32(0)
    for block in range(rounded.shape[1] // WIDTH):
        start = block * WIDTH
        for i in range(WIDTH):
            product = np.int32(rounded[row, start + i]) * np.int32(rounded_query[other, start + i])
            total = np.int32(total + product)
    return total


@compiled()
def round_vectors(vectors: Any, width: int, error: float, rounding: float) -> Any:
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
def word_features(rows: Any, ids: Any, dimension: int, side: int) -> Any:
    """The vector of a word and its mean importance, computed in float64.

    Args:
        rows: float32 `(1 + ids, dimension + 3)`, see `MaxSim.rows`.
        ids: int64, the ids of the word.
        dimension: the dimension of the vector.
        side: `QUERY` or `TITLE` of `dssm_tf.runtime.maxsim`.

    Returns:
        float32 `(dimension,)`, of length 1, or 0 for a word without ids; float64.
    """
    sums = np.zeros(rows.shape[1], np.float64)
    for row in ids:
        for i in range(len(sums)):
            sums[i] += np.float64(rows[row, i])
    square = 0.0
    for i in range(dimension):
        square += sums[i] * sums[i]
    length = np.sqrt(max(square, 1e-12))
    vector = np.empty(dimension, np.float32)
    for i in range(dimension):
        vector[i] = sums[i] / length
    return vector, sums[dimension + side] / max(sums[-1], 1.0)


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
    rounded_query, vector_scales, margins = round_vectors(vector, rounded.shape[1], error, rounding)
    scale, margin = vector_scales[0], margins[0]
    block = np.empty(_BLOCK, np.float32)
    rows, cosines = np.empty(len(rounded), np.int64), np.empty(len(rounded), np.float32)
    lowest, count = np.float32(cosine - margin), 0
    for start in range(0, len(rounded), _BLOCK):
        size = min(_BLOCK, len(rounded) - start)
        for i in range(size):  # a loop without branches is several times faster
            product = np.float32(rounded_product(rounded, start + i, rounded_query, 0))
            block[i] = product * scales[start + i] * scale
        for i in range(size):
            if block[i] > lowest:
                rows[count], cosines[count] = start + i, block[i]
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
