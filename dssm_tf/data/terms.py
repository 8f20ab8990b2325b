"""IDF of the words, and of pairs of neighboring words, in the texts of a training.

The score `maxsim` reads them. `dssm_tf.text.document_frequencies` defines both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.text.document_frequencies import DocumentFrequencies

_PADDING = 8
"""Numbers of pairs are padded to a multiple of this where shapes are fixed."""


class IdfTensors(NamedTuple):
    """IDF of words and of known pairs, by the word indices of `TextTensors`.

    All are tensors: a dataset would copy a NumPy array into each of its functions.

    Args:
        word_idf: float32 `(words,)`, the IDF of each row of `TextTensors.ngrams`.
        pair_keys: int64 `(pairs + 1,)`, increasing, `first * word_count + second` of each known
            pair; the last key is a sentinel, higher than any other.
        pair_idf: float32 `(pairs + 1,)`; the last one is 0.
        word_count: number of words that pairs can have.
    """

    word_idf: tf.Tensor
    pair_keys: tf.Tensor
    pair_idf: tf.Tensor
    word_count: int

    @classmethod
    def from_frequencies(
        cls, words: Sequence[str], frequencies: DocumentFrequencies, count: int
    ) -> IdfTensors:
        """The IDF of words `(words,)` and their pairs; only the first `count` can be in pairs."""
        index = {word: position for position, word in enumerate(words[:count])}
        pairs = []
        for pair in frequencies.pairs:
            first, second = pair.split(" ")
            if first in index and second in index:
                pairs.append((index[first] * count + index[second], frequencies.pair_idf(pair)))
        pairs.sort()
        pairs.append((np.iinfo(np.int64).max, 0.0))
        keys, idf = zip(*pairs, strict=True)
        return cls(
            tf.constant([*map(frequencies.word_idf, words)], tf.float32),
            tf.constant(keys, tf.int64),
            tf.constant(idf, tf.float32),
            count,
        )

    def features(
        self, words: tf.RaggedTensor, texts: tf.Tensor, planned: int
    ) -> dict[str, tf.Tensor]:
        """The pairs of texts, each pair once per text: `pairs` and `pair_idf` of a text batch.

        Args:
            words: `[texts, words]`, word indices.
            texts: number of texts with padding.
            planned: number of rows to pad to; 0 for one row of padding.
        """
        flat, text = words.flat_values, words.value_rowids()
        first, second = tf.cast(flat[:-1], tf.int64), tf.cast(flat[1:], tf.int64)
        is_pair = (text[:-1] == text[1:]) & (first < self.word_count) & (second < self.word_count)
        keys = tf.boolean_mask(first * self.word_count + second, is_pair)
        index = tf.searchsorted(self.pair_keys, keys)
        is_known = tf.gather(self.pair_keys, index) == keys
        rows = tf.cast(tf.boolean_mask(tf.boolean_mask(text[:-1], is_pair), is_known), tf.int64)
        size = len(self.pair_keys)
        cells, _ = tf.unique(rows * size + tf.boolean_mask(tf.cast(index, tf.int64), is_known))
        index = cells % size
        # The last row is padding: its text is the number of texts.
        missing = tf.maximum(planned - tf.size(cells), 1)
        if planned:
            missing += -(tf.size(cells) + missing) % _PADDING
        texts = tf.cast(texts, tf.int32)
        pairs = tf.stack([tf.cast(cells // size, tf.int32), 1 + tf.cast(index, tf.int32)], axis=1)
        padding = tf.tile(tf.stack([texts, 0])[None], [missing, 1])
        idf = tf.gather(self.pair_idf, index)
        return {
            "pairs": tf.concat([pairs, padding], 0),
            "pair_idf": tf.pad(idf, [[0, missing]]),
        }


def own_rows(ngrams: pa.ListArray, whole_words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each word has letter n-grams and then the id of the whole word, `(words,)`.

    Args:
        ngrams: the ids of each word.
        whole_words: the ids of whole words.
    """
    lengths = ngrams.value_lengths().to_numpy().astype(np.int64)
    flat = np.append(ngrams.flatten().to_numpy(), 0)
    last = np.cumsum(lengths) - 1
    return (lengths > 1) & np.isin(flat[last], whole_words)
