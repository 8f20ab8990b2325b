"""Counts how often two words are adjacent in texts, or near each other."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssm_tf.baselines.tokens import Ids, Tokens, count_table, index_in


def ordered_windows(texts: Tokens, pairs: Ids) -> sparse.csr_matrix:
    """How often the second word of a pair follows the first directly.

    Args:
        texts: the texts to count in.
        pairs: `(pairs, 2)` ids of words, sorted, without repeats.

    Returns:
        float64 `(pairs, texts)`.
    """
    positions = texts.positions(np.unique(pairs))
    first = positions[:-1][np.diff(positions) == 1]
    pair = index_in(_key(texts, texts.ids[first], texts.ids[first + 1]), _keys(texts, pairs))
    mask = (pair >= 0) & (texts.text_indices[first] == texts.text_indices[first + 1])
    return count_table(pair[mask], texts.text_indices[first[mask]], len(pairs), len(texts))


def unordered_windows(texts: Tokens, pairs: Ids, width: int) -> sparse.csr_matrix:
    """Counts windows of `width` words that end at a word of a pair and contain the other before it.

    So each occurrence of a word counts at most once, even if the other word is before it several
    times. A pair of a word with itself needs two occurrences.

    Args:
        texts: the texts to count in.
        pairs: `(pairs, 2)` ids of words, sorted, without repeats; (a, b) and (b, a) count the same.
        width: number of words in a window, including the two words of the pair.

    Returns:
        float64 `(pairs, texts)`.
    """
    sets, set_of_pair = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    positions = texts.positions(np.unique(pairs))
    keys = _keys(texts, sets)
    windows = []
    # Positions of the pairs' words only, so the n-th position back is at least n words back.
    for back in range(1, min(width, len(positions))):
        first, last = positions[:-back], positions[back:]
        near = (last - first < width) & (texts.text_indices[first] == texts.text_indices[last])
        if not near.any():
            break
        first, last = first[near], last[near]
        words = texts.ids[first], texts.ids[last]
        word_set = index_in(_key(texts, np.minimum(*words), np.maximum(*words)), keys)
        windows.append(last[word_set >= 0] * len(sets) + word_set[word_set >= 0])
    if not windows:
        return sparse.csr_matrix((len(pairs), len(texts)))
    # A window's end and set of words count once for all distances. (np.unique hashes and is slow.)
    codes = np.sort(np.concatenate(windows))
    end, word_set = np.divmod(codes[np.diff(codes, prepend=-1) > 0], len(sets))
    table = count_table(word_set, texts.text_indices[end], len(sets), len(texts))
    return table[set_of_pair.ravel()]


def _key(texts: Tokens, first: Ids, second: Ids) -> Ids:
    return first * texts.size + second


def _keys(texts: Tokens, pairs: Ids) -> Ids:
    return _key(texts, pairs[:, 0], pairs[:, 1])
