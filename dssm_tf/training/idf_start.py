"""A first matrix to begin with whose cosines are those of TF-IDF, as far as random rows tell."""

from __future__ import annotations

from collections.abc import Iterable

import keras
import numpy as np
from numpy.typing import NDArray

from dssm_tf.data.titles import Title
from dssm_tf.model.siamese import Siamese
from dssm_tf.text.vocabulary import Vocabulary


def rarity(titles: Iterable[Title], vocabulary: Vocabulary) -> NDArray[np.float64]:
    """`1 + ln((1 + N) / (1 + n))` of each id, of `N` titles of which `n` hold it.

    Args:
        titles: of the log and of the corpus.
        vocabulary: its ids, hash buckets too; padding, id 0, is held by none.

    Returns:
        `(1 + vocabulary.size,)`.
    """
    holders = np.zeros(1 + vocabulary.size)
    number = 0
    for title in titles:
        number += 1
        words = vocabulary.words(title.text)
        holders[list({id for word in words for id in vocabulary.ngram_ids(word)})] += 1
    return 1 + np.log((1 + number) / (1 + holders))


def idf_start(
    model: Siamese, titles: Iterable[Title], vocabulary: Vocabulary
) -> list[NDArray[np.float32]]:
    """The weights of an untrained model with the rows of its first matrices weighed by rarity.

    Random rows keep cosines: the inner product of two sums of rows is, in the mean, that of the
    texts' counts of letter trigrams, and of their TF-IDF vectors where each row is as long as its
    trigram is rare. The squares of a matrix keep their mean, and with it the size of what enters
    the next layer.

    Reference: Johnson and Lindenstrauss 1984; Achlioptas 2003, sec. 1, on random projections.
    """
    factor = rarity(titles, vocabulary)
    factor /= np.sqrt((factor[1:] ** 2).mean())
    matrices = [tower.hashing.kernel for tower in (model.query_tower, model.title_tower)]
    found = []
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight)
        if any(weight is matrix for matrix in matrices):
            value = (value * factor[:, None]).astype(value.dtype)
        found.append(value)
    return found
