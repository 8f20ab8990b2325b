"""Activations of CLSM and recurrent towers at each word of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.text.fields import join_marked_words, without_marks
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.text_features import TextFeatures
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower

_BATCH = 256


def word_activations(
    tower: CLSM | RecurrentTower, vocabulary: Vocabulary, texts: Iterable[str]
) -> Iterator[tuple[list[str], Any]]:
    """Yields the words of each text, and the activations of the tower at each word.

    Texts without a word are skipped.

    Yields:
        The words, without the marks of their fields, and what `tower.activations` returns, as NumPy
        arrays with first axis `words`.
    """
    features = TextFeatures(vocabulary)
    tokenized = filter(None, map(vocabulary.words, texts))
    while chunk := list(islice(tokenized, _BATCH)):
        batch = features(tf.constant([join_marked_words(words).encode() for words in chunk]))
        arrays = tf.nest.map_structure(np.asarray, tower.activations(batch))
        for row, words in enumerate(chunk):
            yield [*map(without_marks, words)], _without_padding(arrays, row, len(words))


def _without_padding(activations: Any, row: int, word_count: int) -> Any:
    """The activations of one text of a batch, which has `word_count` words."""
    return tf.nest.map_structure(lambda values: values[row, :word_count], activations)


def readings(
    tower: RecurrentTower, vocabulary: Vocabulary, texts: Iterable[str]
) -> Iterator[list[Reading]]:
    """Yields the readings of each text that has a word, one reading per direction."""
    for words, directions in word_activations(tower, vocabulary, texts):
        yield [
            Reading(words, backwards, directions[name])
            for name, backwards in tower.directions.items()
        ]


def tower_activations(
    ranker: SemanticRanker, side: str, words: Sequence[str]
) -> tuple[list[Reading], NDArray[np.float32] | None]:
    """The activations of the `query` or `title` tower at the words of a text.

    Returns:
        The readings of a recurrent tower, one per direction; empty for another tower. And the
        features `h_t(i)` of a CLSM, `(words, neurons)`; None for another tower.
    """
    text, tower = [join_marked_words(words)], getattr(ranker.model, f"{side}_tower")
    if isinstance(tower, RecurrentTower):
        (text_readings,) = readings(tower, ranker.vocabulary, text)
        return text_readings, None
    if isinstance(tower, CLSM):
        ((_, features),) = word_activations(tower, ranker.vocabulary, text)
        return [], features
    return [], None
