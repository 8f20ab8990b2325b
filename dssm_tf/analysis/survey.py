"""What a model makes of many texts: readings, a word in context, neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import normalize_vectors
from dssm_tf.model.text_features import TextFeatures
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower

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
            yield words, tf.nest.map_structure(lambda values: values[row, : len(words)], found)  # noqa: B023


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
        return next(readings(tower, ranker.vocabulary, text)), None
    if isinstance(tower, CLSM):
        return [], next(activations(tower, ranker.vocabulary, text))[1]
    return [], None


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
        word: in each of the texts; where it is in one twice, its first place counts.
        texts: two or more.

    Raises:
        UserError: the tower sees no context, or a text does not have the word.

    Reference: Shen et al. 2014, sec. 3.3 and table 2.
    """
    if not isinstance(tower, CLSM | RecurrentTower):
        raise UserError(f"{type(tower).__name__} has no vector for a word in its context.")
    (word,) = vocabulary.words(word)[:1] or [word]
    if lacking := [text for text in texts if word not in vocabulary.words(text)]:
        raise UserError(f"{word!r} is not among the words that the model reads in {lacking[0]!r}.")
    read, vectors = [], []
    for words, found in activations(tower, vocabulary, texts):
        if isinstance(tower, RecurrentTower):
            found = np.concatenate([found[side]["y"] for side in tower.directions], axis=1)
        read.append(words)
        vectors.append(found[words.index(word)])
    unit = np.asarray(normalize_vectors(np.stack(vectors)))
    cosines = unit[1:] @ unit[0]
    order = np.argsort(-cosines, kind="stable")
    return Contexts(word, read[0], [(read[1 + i], float(cosines[i])) for i in order])


def neighbours(
    tower: Tower, vocabulary: Vocabulary, word: str, among: Iterable[str], number: int = 10
) -> list[tuple[str, float]]:
    """The words that the first matrix puts nearest to one, by the cosine of their sums.

    Args:
        tower: whose first matrix it is.
        vocabulary: its trigrams.
        word: to look at.
        among: the words to choose from.
        number: of neighbours.

    Returns:
        Words and cosines; none for a word without a known trigram.

    Reference: Wu et al. 2014, table 2, for DSE.
    """
    words = [one for one in dict.fromkeys([word, *among]) if vocabulary.ngram_ids(one)]
    if word not in words:
        return []
    kernel = tower.hashing.kernel.numpy()
    sums = np.stack([kernel[list(vocabulary.ngram_ids(one))].sum(axis=0) for one in words])
    unit = np.asarray(normalize_vectors(sums))
    cosines = unit[1:] @ unit[0]
    order = np.argsort(-cosines, kind="stable")[:number]
    return [(words[1 + place], float(cosines[place])) for place in order]
