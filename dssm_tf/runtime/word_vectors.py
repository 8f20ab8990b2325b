"""A cache of the output of a tower's first layer for each word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.text.vocabulary import Vocabulary

_BLOCK = 500  # words that are added at once; a block reads about 10 MB of rows


class WordVectors:
    """Computes the first layer for words, and caches the results in a table, one row per word.

    A full table is emptied. Several threads may use one object.

    Args:
        vocabulary: the letter n-grams and their ids.
        kernel: `(1 + n-grams, units)`, rows by id; row 0 means no n-gram and is zero.
        constant: a bias that is added for each word, `(units,)` or `(1,)`.
        size: number of words in the table; it grows if a call has more.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        kernel: Vectors,
        constant: Vectors,
        size: int,
    ) -> None:
        self._vocabulary = vocabulary
        self._kernel, self._constant = kernel, constant
        self._row_of: dict[str, int] = {}
        # The operating system allocates memory of a row only when it is written.
        self._table = np.empty((size, kernel.shape[1]), np.float32)
        self._known = np.zeros(size, bool)
        self._lock = Lock()

    def __call__(self, words: Sequence[str]) -> Vectors:
        """The vectors of words, `(len(words), units)`.

        A cached word takes about 50 ns, another about 10 microseconds.
        """
        return self.look_up(words)[0]

    def look_up(self, words: Sequence[str]) -> tuple[Vectors, NDArray[np.bool_]]:
        """The vectors of words, and whether each word has a known letter n-gram, `(words,)`."""
        with self._lock:
            try:
                rows = [self._row_of[word] for word in words]
            except KeyError:
                self._add(list(dict.fromkeys(words)))
                rows = [self._row_of[word] for word in words]
            return self._table.take(rows, axis=0), self._known.take(rows)

    def _add(self, words: list[str]) -> None:
        """Adds words to the table, except those that it has."""
        new = [word for word in words if word not in self._row_of]
        if len(self._row_of) + len(new) > len(self._table):
            self._row_of.clear()
            new = words
            if len(new) > len(self._table):
                self._table = np.empty((len(new), self._kernel.shape[1]), np.float32)
        rows = range(len(self._row_of), len(self._row_of) + len(new))
        for start in range(0, len(new), _BLOCK):
            block = new[start : start + _BLOCK]
            # Each word starts with row 0, because `reduceat` needs at least one row per word.
            word_ids = [(0, *self._vocabulary.look_up(word)) for word in block]
            lengths = np.array(list(map(len, word_ids)))
            ids = np.array(list(chain.from_iterable(word_ids)))
            sums = np.add.reduceat(self._kernel[ids], lengths.cumsum() - lengths, axis=0)
            first = rows.start + start
            self._table[first : first + len(block)] = sums + self._constant
            self._known[first : first + len(block)] = lengths > 1
        self._row_of.update(zip(new, rows, strict=True))
