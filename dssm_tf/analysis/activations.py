"""How towers read texts: their activations at each word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.text_features import TextFeatures
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower

_BATCH = 256


def activations(
    tower: CLSM | RecurrentTower, vocabulary: Vocabulary, texts: Iterable[str]
) -> Iterator[tuple[list[str], Any]]:
    """The words of each text that has one, and the tower's `activations` at them, as NumPy."""
    features = TextFeatures(vocabulary)
    known = filter(None, map(vocabulary.words, texts))
    while chunk := list(islice(known, _BATCH)):
        batch = features(tf.constant([" ".join(words).encode() for words in chunk]))
        found = tf.nest.map_structure(np.asarray, tower.activations(batch))
        for row, words in enumerate(chunk):
            yield words, _without_padding(found, row, len(words))


def _without_padding(activations: Any, row: int, words: int) -> Any:
    """The activations of one text of a batch."""
    return tf.nest.map_structure(lambda values: values[row, :words], activations)


def readings(
    tower: RecurrentTower, vocabulary: Vocabulary, texts: Iterable[str]
) -> Iterator[list[Reading]]:
    """How the tower reads each text that has a word, one reading for each direction."""
    for words, found in activations(tower, vocabulary, texts):
        yield [Reading(words, tower.directions[side], found[side]) for side in tower.directions]


def look_inside(
    ranker: SemanticRanker, side: str, words: Sequence[str]
) -> tuple[list[Reading], NDArray[np.float32] | None]:
    """How the tower of a side, `query` or `title`, read the words of a text.

    Returns:
        The readings of a recurrent tower, one for each direction; the features of a CLSM,
        `h_t(i)`, `(words, neurons)`. Nothing for other towers.
    """
    text, tower = [" ".join(words)], getattr(ranker.model, f"{side}_tower")
    if isinstance(tower, RecurrentTower):
        (read,) = readings(tower, ranker.vocabulary, text)
        return read, None
    if isinstance(tower, CLSM):
        ((_, features),) = activations(tower, ranker.vocabulary, text)
        return [], features
    return [], None
