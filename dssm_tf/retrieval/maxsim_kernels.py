"""The inner loops of a search with the score maxsim, compiled by Numba.

All functions release the lock of the interpreter, so several threads search at once. They check no
bounds: `maxsim_files` checks the arrays of an index when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

BLOCK = 8192
"""Titles whose sums are added up together; their sums fit into the CPU's cache."""

LEVELS = 127
"""The largest whole number of a rounded vector."""

_SUMS_IN_ANY_ORDER = {"reassoc", "contract"}


def _compiled(**options: Any) -> Callable[[Any], Any]:
    """A decorator that compiles a function at its first call, and keeps the machine code in a file.

    Without a directory to write the file into, the function is compiled in each process.
    """

    def compile_function(function: Any) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # "no locator available"
            return numba.njit(nogil=True, **options)(function)

    return compile_function


@_compiled(fastmath=_SUMS_IN_ANY_ORDER)
def _cosine(first: Any, row: int, second: Any, other: int) -> Any:
    """The inner product of two rows of float32 matrices, in float32."""
    total = np.float32(0)
    for i in range(first.shape[1]):
        total += first[row, i] * second[other, i]
    return total


@_compiled()
def _rounded_product(rounded: Any, row: int, small: Any, other: int) -> Any:
    """The inner product of rows of an int8 and an int16 matrix, in int32."""
    total = np.int32(0)
    for i in range(rounded.shape[1]):
        total = np.int32(total + np.int32(rounded[row, i]) * np.int32(small[other, i]))
    return total


@_compiled()
def _round(vectors: Any, error: float, rounding: float) -> Any:
    """Rounds vectors to compare them with rounded ones.

    Args:
        vectors: float32 `(rows, dimension)`, of length 1 or 0.
        error: the length of the largest difference between the other rounded vectors and their
            exact ones.
        rounding: of a product in float32.

    Returns:
        int16 `(rows, dimension)`; float32 `(rows,)`, by which the rows are multiplied; float32
        `(rows,)`, the largest difference between a product and the exact cosine.
    """
    count, dimension = vectors.shape
    small = np.zeros((count, dimension), np.int16)
    scales, margins = np.empty(count, np.float32), np.empty(count, np.float32)
    for row in range(count):
        scale = np.abs(vectors[row]).max() / np.float32(LEVELS)
        square = np.float32(0)
        for i in range(dimension):
            if scale > 0:
                small[row, i] = np.int16(np.rint(vectors[row, i] / scale))
            square += (vectors[row, i] - small[row, i] * scale) ** 2
        scales[row] = scale
        margins[row] = error + np.sqrt(square) * (1 + error) + rounding
    return small, scales, margins


@_compiled()
def rows_near(
    rounded: Any, scales: Any, error: float, vector: Any, cosine: float, limit: int, rounding: float
) -> Any:
    """The rows of a rounded matrix that are near a vector; see `RoundedVectors`.

    Args:
        rounded: int8 `(rows, dimension)`.
        scales: float32 `(rows,)`, by which the rows are multiplied.
        error: the length of the largest difference between a row and its exact vector.
        vector: float32 `(1, dimension)`, a unit vector.
        cosine: the lowest cosine.
        limit: the number of rows.
        rounding: of a product in float32.

    Returns:
        int64, ascending: at least the `limit` rows of highest cosine above the lowest one.
    """
    small, vector_scales, margins = _round(vector, error, rounding)
    scale, margin = vector_scales[0], margins[0]
    # A loop without branches is several times faster.
    cosines = np.empty(len(rounded), np.float32)
    for row in range(len(rounded)):
        cosines[row] = np.float32(_rounded_product(rounded, row, small, 0)) * scales[row] * scale
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
    return rows[:count].copy()


@_compiled()
def best_titles(
    word_starts: Any,
    word_titles: Any,
    pair_starts: Any,
    pair_titles: Any,
    title_weights: Any,
    pair_title_weights: Any,
    inverse_totals: Any,
    priors: Any,
    allowed: Any,
    ends: Any,
    rows: Any,
    similarities: Any,
    query_weights: Any,
    pairs: Any,
    pair_query_weights: Any,
    depth: int,
) -> Any:
    """The titles with the highest sums over the similar words of a query, in any order.

    Args:
        word_starts: the start of each word's titles in `word_titles`, int64 `(words + 1,)`.
        word_titles: int32, ascending for each word.
        pair_starts: the same for pairs.
        pair_titles: the same for pairs.
        title_weights: float32 `(words,)`, the weight of each word in a title.
        pair_title_weights: float64 `(pairs,)`.
        inverse_totals: float32 `(titles,)`, by which the title side is multiplied.
        priors: float32 `(titles,)`.
        allowed: bool `(titles,)`, the titles to rank; empty for all.
        ends: int64 `(query words,)`, the end of each query word's entries.
        rows: int32 `(entries,)`, rows of similar words, most similar first for each query word.
        similarities: float32 `(entries,)`, above 0.
        query_weights: float64 `(query words,)`, the share of each word in the query side.
        pairs: int64, rows of the query's pairs that titles have.
        pair_query_weights: float64, their shares in the query side.
        depth: the number of titles to return.

    Returns:
        int32, at most `depth`; of titles with equal sums, the first ones.
    """
    words, entries, count = len(ends), len(rows), len(inverse_totals)
    # A title word counts once, with its most similar query word.
    entry_of_word = np.full(len(title_weights), -1, np.int32)
    for entry in range(entries):
        best = entry_of_word[rows[entry]]
        if best < 0 or similarities[entry] >= similarities[best]:
            entry_of_word[rows[entry]] = entry
    query_adds, title_adds = np.zeros(entries, np.float32), np.zeros(entries, np.float32)
    word = 0
    position, end = np.empty(entries, np.int64), np.empty(entries, np.int64)
    for entry in range(entries):
        while entry >= ends[word]:
            word += 1
        row = rows[entry]
        query_adds[entry] = query_weights[word] * similarities[entry]
        if entry_of_word[row] == entry:
            title_adds[entry] = title_weights[row] * similarities[entry]
        position[entry], end[entry] = word_starts[row], word_starts[row + 1]
    pair_position, pair_end = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    for i in range(len(pairs)):
        pair_position[i], pair_end[i] = pair_starts[pairs[i]], pair_starts[pairs[i] + 1]
    query_side, title_side = np.zeros(BLOCK, np.float32), np.zeros(BLOCK, np.float32)
    last_word = np.zeros(BLOCK, np.int32)  # the last query word that a title matched, from 1
    matched = np.empty(BLOCK, np.int32)  # the titles that match a word or pair
    heap_scores, heap_titles = np.empty(depth, np.float32), np.empty(depth, np.int32)
    size = 0
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        begin = matched_count = 0
        for word in range(words):
            for entry in range(begin, ends[word]):
                i, i_end, add, title_add = (
                    position[entry], end[entry], query_adds[entry], title_adds[entry]
                )  # fmt: skip
                while i < i_end and word_titles[i] < stop:
                    title = word_titles[i] - start
                    if last_word[title] != word + 1:  # the first is the most similar one
                        if last_word[title] == 0:
                            matched[matched_count] = title
                            matched_count += 1
                        last_word[title] = word + 1
                        query_side[title] += add
                    title_side[title] += title_add
                    i += 1
                position[entry] = i
            begin = ends[word]
        for pair in range(len(pairs)):
            i = pair_position[pair]
            while i < pair_end[pair] and pair_titles[i] < stop:
                title = pair_titles[i] - start
                if last_word[title] == 0:  # words without ids match by their pair only
                    matched[matched_count] = title
                    matched_count += 1
                    last_word[title] = words + 1
                query_side[title] += pair_query_weights[pair]
                title_side[title] += pair_title_weights[pairs[pair]]
                i += 1
            pair_position[pair] = i
        for i in range(matched_count):
            title = matched[i]
            score = (
                query_side[title]
                + title_side[title] * inverse_totals[start + title]
                + priors[start + title]
            )
            query_side[title] = title_side[title] = last_word[title] = 0
            if len(allowed) and not allowed[start + title]:
                continue
            if size < depth or _is_worse(heap_scores[0], heap_titles[0], score, start + title):
                size = _keep(heap_scores, heap_titles, size, score, start + title)
    return heap_titles[:size]


@_compiled()
def _is_worse(score: Any, title: Any, other_score: Any, other_title: Any) -> Any:
    """Whether a title ranks below another one; of equal scores, the first title is better."""
    return score < other_score or (score == other_score and title > other_title)


@_compiled()
def _keep(scores: Any, titles: Any, size: int, score: Any, title: Any) -> Any:
    """Adds a title to a binary heap whose first title is the worst one.

    Args:
        scores: float32 `(depth,)`.
        titles: int32 `(depth,)`.
        size: number of titles in the heap; if it is full, the first one is dropped.
        score: the score of the new title.
        title: the new title; better than the first one if the heap is full.

    Returns:
        The new size.
    """
    depth = len(scores)
    if size < depth:  # the new title moves up
        at = size
        while at > 0:
            above = (at - 1) // 2
            if not _is_worse(score, title, scores[above], titles[above]):
                break
            scores[at], titles[at] = scores[above], titles[above]
            at = above
        scores[at], titles[at] = score, title
        return size + 1
    at = 0  # the new title moves down from the top
    while 2 * at + 1 < depth:
        below = 2 * at + 1
        if below + 1 < depth and _is_worse(
            scores[below + 1], titles[below + 1], scores[below], titles[below]
        ):
            below += 1
        if _is_worse(score, title, scores[below], titles[below]):
            break
        scores[at], titles[at] = scores[below], titles[below]
        at = below
    scores[at], titles[at] = score, title
    return size


@_compiled()
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
        rounded: see `rows_near`; so are `scales`, `error` and `rounding`.
        scales: see `rounded`.
        error: see `rounded`.
        rounding: see `rounded`.
        title_weights: float32 `(words,)`, the weight of each word in a title.
        pair_title_weights: float64 `(pairs,)`.
        inverse_totals: float32 `(titles,)`, by which the title side is multiplied.
        priors: float32 `(titles,)`.
        titles: int32, the titles to score.
        query_vectors: float32 `(query words, dimension)`.
        query_weights: float64 `(query words,)`, the share of each word in the query side.
        pairs: int64, rows of the query's pairs that titles have.
        pair_query_weights: float64, their shares in the query side.
        set_ends: int64 `(query words,)`, the end of each query word's entries in `set_rows`.
        set_rows: int64, rows of words whose similarity to the query word is set by a rule.
        set_similarities: float32, these similarities.
        threshold: cosines up to this value are similarity 0.

    Returns:
        float32 `(len(titles),)`.
    """
    words = len(query_vectors)
    small, query_scales, margins = _round(query_vectors, error, rounding)
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
                    product = np.float32(_rounded_product(rounded, row, small, word))
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
