"""Varies the words of training queries: subsets of a title's words, and typing errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dssm_tf.data.texts import MISSPELLINGS, TextTensors

_MIN_WORDS, _MAX_WORDS = 2, 4
_DRAWS = 3  # random numbers per row, besides one per word
_EXTRA_DRAWS = 2  # for neighboring words
_MAX_NUMBER = 1 << 53  # the sum of the numbers of a long text must be below 2^63


class QueryWords:
    """Draws the words of queries anew in each epoch.

    A title that is used as a query keeps two to four of its words, in their order, because users
    rarely type all of it. In a fraction of these queries, the words are neighbors in the title;
    otherwise they are any words of it. If they are exactly the words of a held-out query, the title
    keeps all of its words instead. In a fraction of all queries, the longest word gets a
    typing error.

    Args:
        texts: texts of the training, with misspelled variants if `typos` is above 0.
        typos: fraction of the queries with a typing error.
        neighboring_words: fraction of the titles' queries with neighboring words.
        held_out: word indices of the queries that are left out of training, such as those for
            validation.

    Call arguments:
        query: int `(rows,)`, text indices. From `texts.first_title` on, the text is a title.
        words: ragged int32 `[rows, words]`, the word indices of the texts.
        random: float64 `(rows, width)`, uniform in [0, 1).

    Returns:
        Ragged int32 `[rows, words]`.
    """

    def __init__(
        self,
        texts: TextTensors,
        typos: float,
        neighboring_words: float = 0.0,
        held_out: Sequence[Sequence[int]] = (),
    ) -> None:
        self._texts = texts
        self._typos = typos
        self._neighboring_words = neighboring_words
        self._letters = texts.ngrams.row_lengths()
        # A set of words is compared by the sum of their random numbers.
        random = np.random.default_rng(0)
        numbers = random.integers(_MAX_NUMBER, size=texts.ngrams.nrows())
        self._numbers = tf.constant(numbers)
        self._held_out = tf.constant(np.unique([numbers[[*{*words}]].sum() for words in held_out]))
        self._has_held_out = len(held_out) > 0
        max_words = int(tf.reduce_max(texts.words.row_lengths()))
        # These numbers come last and only if they are needed, so the others do not depend on them.
        self._first_extra = _DRAWS + max_words
        self.width = self._first_extra + (_EXTRA_DRAWS if neighboring_words else 0)

    def __call__(
        self, query: tf.Tensor, words: tf.RaggedTensor, random: tf.Tensor
    ) -> tf.RaggedTensor:
        """See the class."""
        words = words.to_tensor(-1)
        columns = tf.shape(words)[1]
        count, typo, variant = tf.unstack(random[:, :_DRAWS], axis=1)
        subset_size = _MIN_WORDS + tf.cast(count * (_MAX_WORDS - _MIN_WORDS + 1), tf.int32)
        max_words = tf.where(query < self._texts.first_title, columns, subset_size)
        order = random[:, _DRAWS : _DRAWS + columns] + tf.cast(words < 0, random.dtype)
        mask = tf.argsort(tf.argsort(order)) < max_words[:, None]
        if self._neighboring_words:
            length = tf.math.count_nonzero(words >= 0, axis=1, dtype=tf.int32)
            choice, start_fraction = tf.unstack(random[:, self._first_extra :], axis=1)
            starts = tf.cast(tf.maximum(length - max_words + 1, 1), random.dtype)
            start = tf.cast(start_fraction * starts, tf.int32)[:, None]
            position = tf.range(columns)[None]
            run = (position >= start) & (position < start + max_words[:, None])
            mask = tf.where((choice < self._neighboring_words)[:, None], run, mask)
        mask &= words >= 0
        if self._has_held_out:
            is_held_out = self._is_held_out(words, mask) & (query >= self._texts.first_title)
            mask |= is_held_out[:, None] & (words >= 0)
        if self._typos:
            words = self._misspell(words, mask, typo < self._typos, variant)
        return tf.ragged.boolean_mask(words, mask)

    def _is_held_out(self, words: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Whether the words of each row are those of a held-out query, bool `(rows,)`.

        A repeated word counts once.

        Args:
            words: int32 `(rows, columns)`, word indices.
            mask: bool `(rows, columns)`, the words of the query.
        """
        numbers = tf.where(mask, tf.gather(self._numbers, tf.maximum(words, 0)), 0)
        numbers = tf.sort(numbers, axis=1)
        is_repeated = tf.pad(numbers[:, 1:] == numbers[:, :-1], [[0, 0], [1, 0]])
        sums = tf.reduce_sum(tf.where(is_repeated, tf.zeros_like(numbers), numbers), axis=1)
        index = tf.searchsorted(self._held_out, sums)
        index = tf.minimum(index, tf.size(self._held_out) - 1)
        return tf.gather(self._held_out, index) == sums

    def _misspell(
        self, words: tf.Tensor, mask: tf.Tensor, has_typo: tf.Tensor, variant: tf.Tensor
    ) -> tf.Tensor:
        """Replaces the longest word of each row that has a typo by a misspelled variant.

        Args:
            words: int32 `(rows, columns)`, word indices.
            mask: bool `(rows, columns)`, the words of the query.
            has_typo: bool `(rows,)`.
            variant: float64 `(rows,)` in [0, 1), which chooses the variant.
        """
        letters = tf.gather(self._letters, tf.maximum(words, 0))
        longest = tf.argmax(tf.where(mask, letters, -1), axis=1, output_type=tf.int32)
        word_count = len(self._letters) // (1 + MISSPELLINGS)
        first = word_count + tf.cast(variant * MISSPELLINGS, tf.int32)
        is_longest = tf.range(tf.shape(words)[1]) == longest[:, None]
        misspelled = first[:, None] + words * MISSPELLINGS
        return tf.where(is_longest & has_typo[:, None], misspelled, words)
