"""What a model makes of many texts: topics of its cells, words in context, neighbours, a map."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading, most_active
from dssm_tf.analysis.neurons import winners
from dssm_tf.model.text_features import TextFeatures
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower

Array = NDArray[np.floating[Any]]

_BATCH = 256
_TOPIC_CELLS = 5
_ENOUGH = 6  # occurrences of a word that is looked at in different contexts


def readings(tower: RecurrentTower, vocabulary: Vocabulary, texts: Sequence[str]) -> Iterator[Any]:
    """How the tower reads each text that has a word: a list of `Reading`, one a direction."""
    features = TextFeatures(vocabulary)
    for start in range(0, len(texts), _BATCH):
        chunk = [
            words for text in texts[start : start + _BATCH] if (words := vocabulary.words(text))
        ]
        if not chunk:
            continue
        found = tower.activations(features(tf.constant([" ".join(one).encode() for one in chunk])))
        sides = {
            side: {name: values.numpy() for name, values in of.items()}
            for side, of in found.items()
        }
        for row, words in enumerate(chunk):
            yield [
                Reading(
                    words,
                    tower.directions[side],
                    {name: values[row, : len(words)] for name, values in of.items()},
                )
                for side, of in sides.items()
            ]


class Topic(NamedTuple):
    """A cell and the words that made it active.

    Attributes:
        cell: its number in the semantic vector.
        texts: in how many texts it was among the most active.
        words: with the number of texts in which each moved the cell most, most frequent first.
    """

    cell: int
    texts: int
    words: list[tuple[str, int]]


def topics(
    tower: RecurrentTower, vocabulary: Vocabulary, texts: Sequence[str], active: int = _TOPIC_CELLS
) -> list[Topic]:
    """The words that each cell picks up over many texts, the busiest cell first.

    Of each text the `active` most active cells are looked at, and of each of them the word at
    which its y changed most. The paper looks "into the keywords that are extracted by the 5 most
    active cells".

    Reference: Palangi et al. 2016, sec. V-A3 and table III.
    """
    return topics_of(readings(tower, vocabulary, texts), active)


def topics_of(read: Iterable[Sequence[Reading]], active: int = _TOPIC_CELLS) -> list[Topic]:
    """As `topics`, of texts that were read already."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for of_text in read:
        for place, reading in enumerate(of_text):
            words = reading.words[::-1] if reading.backwards else reading.words
            changes = np.abs(np.diff(reading.y, axis=0, prepend=0.0))
            for cell in most_active(reading.y[-1], active):
                number = place * reading.y.shape[1] + int(cell)
                counts[number][words[int(changes[:, cell].argmax())]] += 1
    found = [Topic(cell, of.total(), _ordered(of)) for cell, of in counts.items()]
    return sorted(found, key=lambda topic: (-topic.texts, topic.cell))


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


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
        for words, features in _in_context(tower, vocabulary, texts)
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


def contexts(
    tower: Tower,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    words: Sequence[str] = (),
    top: int = 4,
) -> list[Contexts]:
    """The same word in different company: its features at the convolution, or a recurrence's y.

    Args:
        tower: a `CLSM` or a `RecurrentTower`; others see no context.
        vocabulary: its trigrams.
        texts: where to look.
        words: to look at; if none, those with the largest spread of cosines.
        top: how many words, if none are given.

    Reference: Shen et al. 2014, sec. 3.3 and table 2.
    """
    places: dict[str, list[tuple[list[str], Array]]] = defaultdict(list)
    for found, vectors in _in_context(tower, vocabulary, list(dict.fromkeys(texts))):
        for place, word in enumerate(found):
            if len(found) > 1 and found.index(word) == place:
                places[word].append((found, vectors[place]))
    found_words = []
    for word, occurrences in places.items():
        if (word not in words) if words else (len(occurrences) < _ENOUGH):
            continue
        matrix = np.stack([vector for _, vector in occurrences])
        # What a model has not read yet, or what lies beyond its window, makes no other company.
        different = np.sort(np.unique(matrix.round(5), axis=0, return_index=True)[1])
        occurrences = [occurrences[i] for i in different]
        if len(occurrences) < 2:
            continue
        matrix = matrix[different]
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        cosines = matrix @ matrix.T
        # Compared from the text that has both near and far ones.
        chosen = int(cosines.std(axis=1).argmax())
        order = [i for i in np.argsort(-cosines[chosen], kind="stable") if i != chosen]
        others = [(occurrences[i][0], float(cosines[chosen, i])) for i in order]
        spread = float(cosines[chosen].std())
        found_words.append((spread, Contexts(word, occurrences[chosen][0], others)))
    found_words.sort(key=lambda one: (-one[0], one[1].word))
    return [one for _, one in found_words[: len(words) or top]]


def _in_context(
    tower: Tower, vocabulary: Vocabulary, texts: Sequence[str]
) -> Iterator[tuple[list[str], Array]]:
    """The words of each text and what the tower has at each, `(words, units)`."""
    if isinstance(tower, RecurrentTower):
        for of_text in readings(tower, vocabulary, texts):
            yield of_text[0].words, np.concatenate([one.activations["y"] for one in of_text], 1)
    elif isinstance(tower, CLSM):
        features = TextFeatures(vocabulary)
        for start in range(0, len(texts), _BATCH):
            chunk = [
                one for text in texts[start : start + _BATCH] if (one := vocabulary.words(text))
            ]
            batch = features(tf.constant([" ".join(one).encode() for one in chunk], tf.string))
            for one, values in zip(chunk, tower.activations(batch).numpy(), strict=True):
                yield one, values[: len(one)]


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


def plane(vectors: Array) -> tuple[NDArray[np.float64], float]:
    """Vectors in two dimensions by principal components, and the share of variance they keep.

    Args:
        vectors: `(texts, dimension)`.

    Returns:
        `(texts, 2)`, the largest entry of either direction positive, and a share from 0 to 1.
    """
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:2] * np.sign(
        np.take_along_axis(directions[:2], np.abs(directions[:2]).argmax(1)[:, None], 1)
    )
    points = np.zeros((len(centred), 2))
    points[:, : len(directions)] = centred @ directions.T
    total = float((sizes**2).sum())
    return points, float((sizes[:2] ** 2).sum()) / total if total else 1.0
