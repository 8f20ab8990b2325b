"""Terms of raw texts in TensorFlow ops: the IDF of words, and pairs of neighboring words.

`dssm_tf.text_features` adds them to text batches of models that compare words:

    word_idf   float32 (distinct_words,)  IDF of each word; row 0 is padding
    pairs      int32 (pairs, 2)           text and id of each known pair, each once per text;
                                          the last row is padding, and its text is their number
    pair_idf   float32 (pairs,)           IDF of each pair

`dssm_tf.data.terms` makes the same from indices, for training.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.id_table import IdTable, hash_texts
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.fields import split_mark


class TermFeatures:
    """Looks up the terms of texts that are split into words.

    Args:
        frequencies: document frequencies of the training data.
        own_fields: number of fields with separate n-grams, see `TextRules`. If there are several,
            the words of the call begin with the digit of their field.
    """

    def __init__(self, frequencies: DocumentFrequencies, own_fields: int) -> None:
        def name(word: str) -> str:
            mark, letters = split_mark(word)
            return (mark[:1] or "0") + letters if own_fields > 1 else word

        names = {name(word): frequencies.word_idf(word) for word in frequencies.words}
        self._words = _table([*names])
        self._word_idf = _values(frequencies.word_idf(""), [*names.values()])
        pairs = {
            " ".join(map(name, pair.split(" "))): frequencies.pair_idf(pair)
            for pair in frequencies.pairs
        }
        self._pairs = _table([*pairs])
        self._pair_idf = _values(0.0, [*pairs.values()])

    def __call__(
        self, words: tf.Tensor, text: tf.Tensor, hashes: tf.Tensor, texts: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The terms of a text batch.

        Args:
            words: string `(words,)`, one text's words after another's.
            text: int64 `(words,)`, the text of each word.
            hashes: int64 `(distinct_words,)`, the hash of each distinct word.
            texts: number of texts.
        """
        idf = tf.gather(tf.constant(self._word_idf), self._words(hashes))
        is_pair = text[:-1] == text[1:]
        names = tf.strings.join([words[:-1], words[1:]], " ")
        ids = self._pairs(hash_texts(tf.boolean_mask(names, is_pair)))
        rows = tf.boolean_mask(text[:-1], is_pair)
        count = len(self._pair_idf)
        cells = tf.boolean_mask(rows * count + tf.cast(ids, tf.int64), ids > 0)
        cells, _ = tf.unique(cells)
        row, id = tf.cast(cells // count, tf.int32), tf.cast(cells % count, tf.int32)
        padding = tf.stack([tf.cast(texts, tf.int32), 0])[None]
        return {
            "word_idf": tf.pad(idf, [[1, 0]]),
            "pairs": tf.concat([tf.stack([row, id], 1), padding], 0),
            "pair_idf": tf.pad(tf.gather(tf.constant(self._pair_idf), id), [[0, 1]]),
        }


def _table(names: list[str]) -> IdTable:
    """Ids from 1 by the hash of a name."""
    hashes = hash_texts(tf.constant(names, tf.string)).numpy()
    return IdTable.from_keys(hashes, range(1, 1 + len(names)))


def _values(unknown: float, known: list[float]) -> NDArray[np.float32]:
    """Values by id; id 0 is unknown."""
    return np.array([unknown, *known], np.float32)
