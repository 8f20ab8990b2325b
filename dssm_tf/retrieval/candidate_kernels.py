"""The first step of a search with the score maxsim, compiled: finds titles with similar words.

It releases Python's global interpreter lock, so several threads can search at once. It checks no
bounds, because `array_checks` checks the arrays of an index when the index is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssm_tf.retrieval.compiled import compiled

BLOCK = 8192
"""Number of titles that are scored together, so that their sums fit into the CPU's cache."""

_ADDITIONAL_KEYS = 1024  # titles beyond twice the depth that are kept before the worst are dropped
_LAST_TITLE = 0x7FFFFFFF
_LOWEST_KEY = -(2**63)


@compiled()
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

    A title is an index into the arrays of titles. A word or pair of the titles is a row. An entry
    is a query word with one similar word of the titles.

    Args:
        word_starts: the start of each word's titles in `word_titles`, int64 `(words + 1,)`.
        word_titles: int32, the titles that contain each word, ascending for each word.
        pair_starts: the same as `word_starts`, for pairs.
        pair_titles: the same as `word_titles`, for pairs.
        title_weights: float32 `(words,)`, the weight of each word in a title.
        pair_title_weights: float64 `(pairs,)`.
        inverse_totals: float32 `(titles,)`, `k1` divided by the sum of the title's weights. See
            `dssm_tf.runtime.maxsim` for `k0`, `k1` and `a(w)`.
        priors: float32 `(titles,)`, added to the sums.
        allowed: bool `(titles,)`, the titles to rank; empty for all.
        ends: int64 `(query words,)`, the end of each query word's entries in `rows`.
        rows: int32 `(entries,)`, rows of similar words, most similar first for each query word.
        similarities: float32 `(entries,)`, above 0.
        query_weights: float64 `(query words,)`, `k0 * a(w)` divided by the sum of the query's
            weights.
        pairs: int64, rows of the pairs that both the query and some title have.
        pair_query_weights: float64, the same as `query_weights`, for `pairs`.
        depth: the maximum number of titles to return.

    Returns:
        The titles, int32, at most `depth`; of titles with equal sums, the first ones.
    """
    words, entries, count = len(ends), len(rows), len(inverse_totals)
    # In a title's side of the score, a word counts once, with its most similar query word.
    entry_of_word = np.full(len(title_weights), -1, np.int32)
    for entry in range(entries):
        best = entry_of_word[rows[entry]]
        if best < 0 or similarities[entry] >= similarities[best]:
            entry_of_word[rows[entry]] = entry
    query_parts, title_parts = np.zeros(entries, np.float32), np.zeros(entries, np.float32)
    word = 0
    position, end = np.empty(entries, np.int64), np.empty(entries, np.int64)
    for entry in range(entries):
        while entry >= ends[word]:
            word += 1
        row = rows[entry]
        query_parts[entry] = query_weights[word] * similarities[entry]
        if entry_of_word[row] == entry:
            title_parts[entry] = title_weights[row] * similarities[entry]
        position[entry], end[entry] = word_starts[row], word_starts[row + 1]
    pair_position, pair_end = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    for i in range(len(pairs)):
        pair_position[i], pair_end[i] = pair_starts[pairs[i]], pair_starts[pairs[i] + 1]
    query_side, title_side = np.zeros(BLOCK, np.float32), np.zeros(BLOCK, np.float32)
    # For each title, the last query word that it matched: from 1; 0 for none.
    last_word = np.zeros(BLOCK, np.int32)
    matched = np.empty(BLOCK + 1, np.int32)  # the titles that match a word or pair
    keys = np.empty(2 * depth + _ADDITIONAL_KEYS, np.int64)
    size, lowest = 0, np.int64(_LOWEST_KEY)  # the key of the worst title that is still wanted
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        first_entry = matched_count = 0
        for word in range(words):
            for entry in range(first_entry, ends[word]):
                i, postings_end, query_part, title_part = (
                    position[entry], end[entry], query_parts[entry], title_parts[entry]
                )  # fmt: skip
                # Without branches: most of them would be mispredicted.
                while i < postings_end and word_titles[i] < stop:
                    title = word_titles[i] - start
                    last = last_word[title]
                    matched[matched_count] = title
                    matched_count += last == 0
                    # A query word counts once: its first entry in a title is the most similar one.
                    query_side[title] += query_part if last != word + 1 else np.float32(0)
                    last_word[title] = word + 1
                    title_side[title] += title_part
                    i += 1
                position[entry] = i
            first_entry = ends[word]
        for pair in range(len(pairs)):
            i = pair_position[pair]
            while i < pair_end[pair] and pair_titles[i] < stop:
                title = pair_titles[i] - start
                # A title can match a pair but no word: a word without ids is similar to no word.
                if last_word[title] == 0:
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
            key = _key(score, start + title)
            if key >= lowest:
                if size == len(keys):
                    size, lowest = depth, _keep_best(keys, size, depth)
                keys[size] = key
                size += 1
    if size > depth:
        size, lowest = depth, _keep_best(keys, size, depth)
    titles = np.empty(size, np.int32)
    for i in range(size):
        titles[i] = _LAST_TITLE - (keys[i] & _LAST_TITLE)
    return titles


@compiled()
def _key(score: Any, title: Any) -> Any:
    """A whole number that orders titles: the higher the better, as in `best_titles`.

    Args:
        score: the score, in float32.
        title: the title.
    """
    bits = np.int64(np.float32(score).view(np.int32))
    if bits < 0:  # of two negative numbers, the one with the higher bits is lower
        bits = bits ^ np.int64(0x7FFFFFFF)
    return (bits << 32) | np.int64(_LAST_TITLE - title)


@compiled()
def _keep_best(keys: Any, size: int, depth: int) -> Any:
    """Moves the highest keys to the start of an array.

    Args:
        keys: int64, the keys.
        size: the number of keys.
        depth: the number of keys to keep, below `size`.

    Returns:
        The lowest of the kept keys.
    """
    best = np.partition(keys[:size], size - depth)[size - depth :]
    keys[:depth] = best
    return best[0]
