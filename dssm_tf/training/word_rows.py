"""The rows of the first matrix that a word adds up: its letter n-grams and perhaps its own row."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import BOUNDARY
from dssm_tf.text.vocabulary import Vocabulary


class WordRows:
    """Finds the rows of words in the first matrix of a model.

    A word of the vocabulary has its own row. The rows of its letter n-grams are its *letter rows*.

    Args:
        vocabulary: the vocabulary of the model.

    Attributes:
        words: the words that have their own row, by row.

    >>> from dssm_tf.text.rules import FOLDED
    >>> rows = WordRows(Vocabulary(["#ca", "cat", "at#"], FOLDED).with_words(["cat", "1␟ox"]))
    >>> rows.words
    {4: 'cat', 5: '1␟ox'}
    >>> rows.split("cat"), rows.split("cats")
    (([1, 2, 3], 4), ([1, 2], None))
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.words = {row: _word(ngram) for ngram, row in vocabulary.whole_words.items()}

    def split(self, word: str) -> tuple[list[int], int | None]:
        """The letter rows of a word, with repetition, and its own row; None if it has none."""
        letters, own_row = [], None
        for row in self._vocabulary.look_up(word):
            if row in self.words:
                own_row = row
            else:
                letters.append(row)
        return letters, own_row

    def check(self, kernel: NDArray[np.floating]) -> None:
        """Raises ValueError unless a matrix has one row per id of the vocabulary."""
        expected = 1 + self._vocabulary.size
        if kernel.ndim != 2 or len(kernel) != expected:
            raise ValueError(
                f"the matrix has the shape {kernel.shape}; expected {expected} rows, one per id of "
                "the vocabulary."
            )


def count_matrix(rows_of_words: Iterable[list[int]], size: int) -> scipy.sparse.csr_matrix:
    """How often each word has each row, float32 `(words, size)`."""
    rows, ends = array("i"), array("q", [0])
    for rows_of_word in rows_of_words:
        rows.extend(rows_of_word)
        ends.append(len(rows))
    ones = np.ones(len(rows), np.float32)
    return scipy.sparse.csr_matrix((ones, rows, ends), (len(ends) - 1, size))


def _word(ngram: str) -> str:
    """The word of an entry of `Vocabulary.whole_words`, without the boundary marks."""
    mark, _, bounded = ngram.partition(BOUNDARY)
    return (mark[0] + SEPARATOR if mark else "") + bounded[:-1]
