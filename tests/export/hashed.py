"""Texts hashed by the rules in Python alone, as the records of training are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dssm_tf.text.vocabulary import Vocabulary


def python_text_batch(vocabulary: Vocabulary, texts: Sequence[str]) -> dict[str, tf.Tensor]:
    """What the towers take."""
    words = [vocabulary.words(text) for text in texts]
    distinct = {word: i for i, word in enumerate(dict.fromkeys(w for t in words for w in t), 1)}
    ngrams = [vocabulary.ngram_ids(word) for word in distinct]
    table = np.zeros((1 + len(distinct), max([1, *map(len, ngrams)])), np.int32)
    for row, ids in enumerate(ngrams, start=1):
        table[row, : len(ids)] = ids
    tokens = np.zeros((len(texts), max([1, *map(len, words)])), np.int32)
    for row, one in enumerate(words):
        tokens[row, : len(one)] = [distinct[word] for word in one]
    return {"word_ngrams": tf.constant(table), "tokens": tf.constant(tokens)}
