"""The first step of a search with the score maxsim, compiled: finds titles with similar words.

It releases Python's global interpreter lock, so several threads can search at once. It checks no
bounds, because `maxsim_files` checks the arrays of an index when the index is opened.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssm_tf.retrieval.compiled import compiled

BLOCK = 8192
"""Number of titles that are scored together, so that their sums fit into the CPU's cache."""


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
    matched = np.empty(BLOCK, np.int32)  # the titles that match a word or pair
    heap_scores, heap_titles = np.empty(depth, np.float32), np.empty(depth, np.int32)
    size = 0
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        first_entry = matched_count = 0
        for word in range(words):
            for entry in range(first_entry, ends[word]):
                i, postings_end, query_part, title_part = (
                    position[entry], end[entry], query_parts[entry], title_parts[entry]
                )  # fmt: skip
                while i < postings_end and word_titles[i] < stop:
                    title = word_titles[i] - start
                    # A query word counts once: its first entry in a title is the most similar one.
                    if last_word[title] != word + 1:
                        if last_word[title] == 0:
                            matched[matched_count] = title
                            matched_count += 1
                        last_word[title] = word + 1
                        query_side[title] += query_part
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
            if size < depth or _is_worse(heap_scores[0], heap_titles[0], score, start + title):
                size = _add_to_heap(heap_scores, heap_titles, size, score, start + title)
    return heap_titles[:size]


@compiled()
def _is_worse(score: Any, title: Any, other_score: Any, other_title: Any) -> Any:
    """Whether a title ranks below another one; of equal scores, the lower index ranks first."""
    return score < other_score or (score == other_score and title > other_title)


@compiled()
def _add_to_heap(scores: Any, titles: Any, size: int, score: Any, title: Any) -> Any:
    """Adds a title to a binary heap whose first title is the worst one.

    Args:
        scores: float32 `(depth,)`.
        titles: int32 `(depth,)`.
        size: number of titles in the heap. If the heap is full, its first title is dropped.
        score: the score of the new title.
        title: the new title. If the heap is full, it must be better than the first title.

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
