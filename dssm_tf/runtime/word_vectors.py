"""The first matrix of a tower, applied once to each distinct word, and what it gave, kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.text.vocabulary import Vocabulary

Vectors = NDArray[np.float32]

_FREE = np.iinfo(np.int64).max


class TrigramRows:
    """The first matrix of a tower: a row for each letter trigram.

    Args:
        rows: `(1 + trigrams, units)`, float32 or float16, or int8 to be multiplied by `scale`. Row
            0 stands for no trigram and is zero.
        scale: of int8 rows, float32 `(1 + trigrams, 1)`.
    """

    def __init__(self, rows: NDArray[Any], scale: Vectors | None = None) -> None:
        self._rows = rows
        self._scale = scale
        self.units = rows.shape[1]

    def sums(self, words: Sequence[Sequence[int]]) -> Vectors:
        """The sum of the rows of each word's trigram ids, float32 `(words, units)`."""
        # Each word begins with the row of no trigram, so that none is without a row.
        lengths = np.fromiter((1 + len(ids) for ids in words), np.intp, len(words))
        ids = np.fromiter(chain.from_iterable((0, *ids) for ids in words), np.intp, lengths.sum())
        rows = self._rows[ids].astype(np.float32)
        if self._scale is not None:
            rows *= self._scale[ids]
        sums: Vectors = np.add.reduceat(rows, np.cumsum(lengths) - lengths, axis=0)
        return sums


class WordVectors:
    """What the first layer makes of words: a table with a row a word, filled as words come.

    When the table is full, the words that were not asked for longest make room. Threads may share
    one.

    Args:
        vocabulary: the trigrams and their ids.
        trigrams: their rows.
        constant: added to each word's sum, `(units,)` or `(1,)`: a bias that comes with every word.
        size: words the table holds.
    """

    def __init__(
        self, vocabulary: Vocabulary, trigrams: TrigramRows, constant: Vectors, size: int
    ) -> None:
        self._vocabulary = vocabulary
        self._trigrams = trigrams
        self._constant = constant
        self._row_of: dict[str, int] = {}
        self._word_in = [""] * size
        self._free = list(range(size))
        # The system gives memory for a row when it is written.
        self._table = np.empty((size, trigrams.units), np.float32)
        self._asked = np.full(size, _FREE)  # in which call a row was read last
        self._call = 0
        self._lock = Lock()

    def __call__(self, words: Sequence[str]) -> Vectors:
        """The vectors of words, `(len(words), units)`; no more distinct ones than the table holds.

        A word that stands in the table takes some 50 ns, another some 10 microseconds.
        """
        with self._lock:
            self._call += 1
            try:
                rows = self._rows(words)
            except KeyError:
                self._learn(words)
                rows = self._rows(words)
            self._asked[rows] = self._call
            return self._table.take(rows, axis=0)

    def _rows(self, words: Sequence[str]) -> NDArray[np.intp]:
        return np.fromiter(map(self._row_of.__getitem__, words), np.intp, len(words))

    def _learn(self, words: Sequence[str]) -> None:
        """Puts those words into the table that are not there."""
        distinct = dict.fromkeys(words)
        self._asked[[self._row_of[word] for word in distinct if word in self._row_of]] = self._call
        new = [word for word in distinct if word not in self._row_of]
        if len(new) > len(self._free):
            self._forget(len(new) - len(self._free))
        rows = [self._free.pop() for _ in new]
        ngram_ids = [self._vocabulary.look_up(word) for word in new]
        self._table[rows] = self._trigrams.sums(ngram_ids) + self._constant
        for word, row in zip(new, rows, strict=True):
            self._row_of[word] = row
            self._word_in[row] = word

    def _forget(self, least: int) -> None:
        """Frees rows, those first that were not asked for longest; an eighth of all at once."""
        order = np.argsort(self._asked)[: max(least, len(self._asked) // 8)]
        for row in order[self._asked[order] < self._call].tolist():
            del self._row_of[self._word_in[row]]
            self._free.append(row)
            self._asked[row] = _FREE
