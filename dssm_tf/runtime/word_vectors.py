"""The first matrix of a tower, applied once to each distinct word, and what it gave, kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from threading import Lock

import numpy as np

from dssm_tf.runtime.vector_ranker import Vectors
from dssm_tf.text.vocabulary import Vocabulary


class WordVectors:
    """What the first layer makes of words: a table with a row a word, filled as words come.

    A table that is full is emptied. Threads may share one.

    Args:
        vocabulary: the trigrams and their ids.
        kernel: a row for each trigram id; row 0 stands for no trigram and is zero.
        constant: added to each word's sum, `(units,)` or `(1,)`: a bias that comes with every word.
        size: words the table holds; at least as many as are asked for at once.
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
        # The system gives memory for a row when it is written.
        self._table = np.empty((size, kernel.shape[1]), np.float32)
        self._lock = Lock()

    def __call__(self, words: Sequence[str]) -> Vectors:
        """The vectors of words, `(len(words), units)`.

        A word that is in the table takes some 50 ns, another some 10 microseconds.
        """
        with self._lock:
            try:
                rows = [self._row_of[word] for word in words]
            except KeyError:
                self._learn(list(dict.fromkeys(words)))
                rows = [self._row_of[word] for word in words]
            return self._table.take(rows, axis=0)

    def _learn(self, words: list[str]) -> None:
        """Puts those words into the table that are not there."""
        new = [word for word in words if word not in self._row_of]
        if len(self._row_of) + len(new) > len(self._table):
            self._row_of.clear()
            new = words
        # Each word begins with the row of no trigram, so that none is without a row.
        listed = [(0, *self._vocabulary.look_up(word)) for word in new]
        lengths = np.array(list(map(len, listed)))
        ids = np.array(list(chain.from_iterable(listed)))
        sums = np.add.reduceat(self._kernel[ids], lengths.cumsum() - lengths, axis=0)
        rows = range(len(self._row_of), len(self._row_of) + len(new))
        self._table[rows.start : rows.stop] = sums + self._constant
        self._row_of.update(zip(new, rows, strict=True))
