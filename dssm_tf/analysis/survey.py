"""What a model makes of many texts: readings, words in context, neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading
from dssm_tf.analysis.neurons import winners
from dssm_tf.common.errors import UserError
from dssm_tf.model.text_features import TextFeatures
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower

Array = NDArray[np.floating[Any]]

_BATCH = 256
_ENOUGH = 6  # occurrences of a word that is looked at in different contexts


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
            yield words, tf.nest.map_structure(lambda values: values[row, : len(words)], found)  # noqa: B023


def readings(
    tower: RecurrentTower, vocabulary: Vocabulary, texts: Iterable[str]
) -> Iterator[list[Reading]]:
    """How the tower reads each text that has a word, one reading for each direction."""
    for words, found in activations(tower, vocabulary, texts):
        yield [Reading(words, tower.directions[side], found[side]) for side in tower.directions]


class Won(NamedTuple):
    """A text's words, and the places of those that win its most active neurons."""

    words: list[str]
    places: frozenset[int]


def won(tower: CLSM, vocabulary: Vocabulary, texts: Sequence[str]) -> list[Won]:
    """The words of each text that win the five most active neurons of a CLSM's maximum.

    A text without words is left out.

    Reference: Shen et al. 2014, tables 3 and 8.
    """
    return [
        Won(words, frozenset(place for _, place in winners(features)))
        for words, features in activations(tower, vocabulary, texts)
    ]


class Contexts(NamedTuple):
    """A word in one text, and how alike the model finds it in others.

    Attributes:
        word: looked at.
        text: the words of the text it is compared from.
        others: words of each other text and the cosine of the word there, most alike first.
    """

    word: str
    text: list[str]
    others: list[tuple[list[str], float]]


def contexts(tower: Tower, vocabulary: Vocabulary, word: str, texts: Sequence[str]) -> Contexts:
    """How alike a word of the first text is to the same word in the other texts.

    Args:
        tower: a `CLSM`, of which the features at the convolution are compared; or a
            `RecurrentTower`, of which y is. Other towers see no context.
        vocabulary: its trigrams.
        word: in each of the texts.
        texts: two or more.

    Raises:
        UserError: the tower sees no context, or a text does not have the word.

    Reference: Shen et al. 2014, sec. 3.3 and table 2.
    """
    if not isinstance(tower, CLSM | RecurrentTower):
        raise UserError(f"{type(tower).__name__} has no vector for a word in its context.")
    (word,) = vocabulary.words(word)[:1] or [word]
    if lacking := [text for text in texts if word not in vocabulary.words(text)]:
        raise UserError(f"{word!r} is not among the words that are read of {lacking[0]!r}.")
    return _compared(word, _occurrences(tower, vocabulary, texts)[word], 0)


def varied_contexts(
    tower: Tower,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    words: Sequence[str] = (),
    top: int = 4,
) -> list[Contexts]:
    """Words whose vector depends most on the text: those with the largest spread of cosines.

    Args:
        tower: see `contexts`; there are none for other towers.
        vocabulary: its trigrams.
        texts: where to look.
        words: to look at; those that are in enough texts if none.
        top: how many words, if none are given.
    """
    found = []
    for word, occurrences in _occurrences(tower, vocabulary, list(dict.fromkeys(texts))).items():
        if (word not in words) if words else (len(occurrences) < _ENOUGH):
            continue
        # What a model has not read yet, or what lies beyond its window, is no other context.
        matrix = np.stack([vector for _, vector in occurrences]).round(5)
        different = np.sort(np.unique(matrix, axis=0, return_index=True)[1])
        if len(different) < 2:
            continue
        occurrences = [occurrences[i] for i in different]
        # Compared from the text that has both near and far ones.
        spreads = _cosines(occurrences).std(axis=1)
        found.append((spreads.max(), _compared(word, occurrences, int(spreads.argmax()))))
    found.sort(key=lambda one: (-one[0], one[1].word))
    return [one for _, one in found[: len(words) or top]]


Occurrences = list[tuple[list[str], Array]]
"""Texts with a word, and what the tower has at it."""


def _occurrences(
    tower: Tower, vocabulary: Vocabulary, texts: Sequence[str]
) -> dict[str, Occurrences]:
    """Where each word is, the first time in a text; not in texts of one word."""
    places: dict[str, Occurrences] = defaultdict(list)
    for found, vectors in _in_context(tower, vocabulary, texts):
        for place, word in enumerate(found):
            if len(found) > 1 and found.index(word) == place:
                places[word].append((found, vectors[place]))
    return places


def _cosines(occurrences: Occurrences) -> Array:
    matrix = np.stack([vector for _, vector in occurrences])
    matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    cosines: Array = matrix @ matrix.T
    return cosines


def _compared(word: str, occurrences: Occurrences, chosen: int) -> Contexts:
    cosines = _cosines(occurrences)[chosen]
    order = [i for i in np.argsort(-cosines, kind="stable") if i != chosen]
    others = [(occurrences[i][0], float(cosines[i])) for i in order]
    return Contexts(word, occurrences[chosen][0], others)


def _in_context(
    tower: Tower, vocabulary: Vocabulary, texts: Sequence[str]
) -> Iterator[tuple[list[str], Array]]:
    """The words of each text and what the tower has at each, `(words, units)`."""
    if isinstance(tower, CLSM | RecurrentTower):
        for words, found in activations(tower, vocabulary, texts):
            if isinstance(tower, RecurrentTower):
                found = np.concatenate([found[side]["y"] for side in tower.directions], axis=1)
            yield words, found


def neighbours(
    tower: Tower,
    vocabulary: Vocabulary,
    words: Sequence[str],
    among: Sequence[str],
    number: int = 6,
) -> dict[str, list[tuple[str, float]]]:
    """The words that the first matrix puts nearest to each word, by the cosine of their sums.

    Args:
        tower: whose first matrix it is.
        vocabulary: its trigrams.
        words: to look at; one without a known trigram is left out.
        among: the words to choose from.
        number: of neighbours.

    Reference: Wu et al. 2014, table 2, for DSE.
    """
    kernel = tower.hashing.kernel.numpy()
    known = [word for word in dict.fromkeys([*words, *among]) if vocabulary.ngram_ids(word)]
    if not known:
        return {}
    matrix = np.stack([kernel[list(vocabulary.ngram_ids(word))].sum(axis=0) for word in known])
    matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    place = {word: row for row, word in enumerate(known)}
    others = np.array([place[word] for word in dict.fromkeys(among) if word in place], np.intp)
    found = {}
    for word in words:
        if word not in place:
            continue
        cosines = matrix[others] @ matrix[place[word]]
        order = [i for i in np.argsort(-cosines, kind="stable") if others[i] != place[word]]
        found[word] = [(known[others[i]], float(cosines[i])) for i in order[:number]]
    return found
