"""Words as bags of letter trigrams: `l(t) = W_h x(t)`, dense and in float64.

Reference: Palangi et al. 2016, eq. 1.

Column `k` of a count matrix belongs to trigram `k` of the list, counted from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def trigrams(word: str) -> list[str]:
    """All runs of three characters of `#word#`."""
    marked = "#" + word + "#"
    return ["".join(run) for run in zip(marked, marked[1:], marked[2:], strict=False)]


def pairs(word: str) -> list[str]:
    """All runs of two characters of `#word#`."""
    marked = "#" + word + "#"
    return ["".join(run) for run in pairwise(marked)]


def sorted_trigrams(word: str) -> list[str]:
    """The trigrams, each with its characters in code point order, after a tilde."""
    return ["~" + "".join(sorted(trigram)) for trigram in trigrams(word)]


def count_matrix(words: Sequence[str], known: Sequence[str]) -> NDArray[np.float64]:
    """`(words, trigrams)`: the count of each known trigram in each word."""
    counts = [Counter(trigrams(word)) for word in words]
    return np.array([[float(c[t]) for t in known] for c in counts]).reshape(-1, len(known))


def text_batch(
    texts: Sequence[Sequence[str]], known: Sequence[str]
) -> dict[str, NDArray[np.int32]]:
    """Texts, each a list of words, as a text batch for the towers; 0 is padding.

    Returns:
        `word_ngrams` `(1 + distinct words, longest word)`, the ids from 1 of each distinct
        word's known trigrams, row 0 empty; `tokens` `(texts, longest text)`, their rows.
    """
    distinct = list(dict.fromkeys(word for words in texts for word in words))
    ids = [[1 + known.index(t) for t in trigrams(word) if t in known] for word in distinct]
    word_ngrams = np.zeros((1 + len(distinct), max(map(len, ids), default=0) or 1), np.int32)
    for row, ids_of_word in enumerate(ids, start=1):
        word_ngrams[row, : len(ids_of_word)] = ids_of_word
    tokens = np.zeros((len(texts), max(map(len, texts), default=0) or 1), np.int32)
    for row, words in enumerate(texts):
        tokens[row, : len(words)] = [1 + distinct.index(word) for word in words]
    return {"word_ngrams": word_ngrams, "tokens": tokens}
