"""How often two words stand next to each other, or near each other, in texts."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssm_tf.baselines.tokens import Ids, Tokens, count_table, place_in


def ordered_windows(texts: Tokens, pairs: Ids) -> sparse.csr_matrix:
    """How often the second word of a pair follows the first directly.

    Args:
        texts: where to count.
        pairs: `(pairs, 2)` ids of words, sorted, without repeats.

    Returns:
        float64 `(pairs, texts)`.
    """
    places = texts.places(np.unique(pairs))
    first = places[:-1][np.diff(places) == 1]
    found = place_in(_key(texts, texts.ids[first], texts.ids[first + 1]), _keys(texts, pairs))
    kept = (found >= 0) & (texts.text[first] == texts.text[first + 1])
    return count_table(found[kept], texts.text[first[kept]], len(pairs), len(texts))


def unordered_windows(texts: Tokens, pairs: Ids, width: int) -> sparse.csr_matrix:
    """How many windows of `width` words end at one word of a pair and hold the other before it.

    So each occurrence of a word counts once, however often the other word stands before it, and
    for a pair of one word with itself two occurrences are needed.

    Args:
        texts: where to count.
        pairs: `(pairs, 2)` ids of words, sorted, without repeats; (a, b) and (b, a) count the same.
        width: words of a window, both words of the pair included.

    Returns:
        float64 `(pairs, texts)`.
    """
    sets, set_of_pair = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    places = texts.places(np.unique(pairs))
    keys = _keys(texts, sets)
    windows = []
    # The asked words alone, so that the n-th one back is at least n words back in the text.
    for back in range(1, min(width, len(places))):
        first, last = places[:-back], places[back:]
        near = (last - first < width) & (texts.text[first] == texts.text[last])
        if not near.any():
            break
        first, last = first[near], last[near]
        words = texts.ids[first], texts.ids[last]
        which = place_in(_key(texts, np.minimum(*words), np.maximum(*words)), keys)
        windows.append(last[which >= 0] * len(sets) + which[which >= 0])
    if not windows:
        return sparse.csr_matrix((len(pairs), len(texts)))
    # An end and a set of words count once, whatever the distance. (np.unique hashes, and is slow.)
    each = np.sort(np.concatenate(windows))
    end, found = np.divmod(each[np.diff(each, prepend=-1) > 0], len(sets))
    table = count_table(found, texts.text[end], len(sets), len(texts))
    return table[set_of_pair.ravel()]


def _key(texts: Tokens, first: Ids, second: Ids) -> Ids:
    return first * texts.size + second


def _keys(texts: Tokens, pairs: Ids) -> Ids:
    return _key(texts, pairs[:, 0], pairs[:, 1])
