"""What a trained run shows of itself: trigrams, gates and cells, neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading
from dssm_tf.analysis.survey import activations, readings
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import normalize_vectors
from dssm_tf.text.letter_ngrams import letter_ngrams, whole_word
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower

Trigrams = list[list[tuple[str, float]]]


class Inside(NamedTuple):
    """A text as a tower read it.

    Attributes:
        vector: unit semantic vector `(dimension,)`.
        trigrams: what the cosine loses without each known trigram of each word.
        readings: of a recurrent tower, one for each direction.
        features: of a CLSM, `h_t(i)`, `(words, neurons)`.
    """

    vector: NDArray[np.float64]
    trigrams: Trigrams
    readings: list[Reading]
    features: NDArray[np.float32] | None


def look_inside(
    ranker: SemanticRanker, side: str, words: list[str], other: str, trigrams: bool
) -> Inside:
    """Reads a text of one side, `query` or `title`, beside the other side's text.

    Args:
        ranker: the model.
        side: of the text.
        words: of the text.
        other: the other text.
        trigrams: whether to say what each is worth.
    """
    towers = {"query": ranker.model.query_tower, "title": ranker.model.title_tower}
    encode = {"query": ranker.encode_queries, "title": ranker.encode_titles}
    tower, text = towers.pop(side), " ".join(words)
    vector = encode.pop(side)([text])[0]
    (encode_other,) = encode.values()
    lost = _lost(tower, ranker.vocabulary, words, encode_other([other])[0]) if trigrams else []
    read, features = [], None
    if isinstance(tower, RecurrentTower):
        (read,) = readings(tower, ranker.vocabulary, [text])
    elif isinstance(tower, CLSM):
        ((_, features),) = activations(tower, ranker.vocabulary, [text])
    return Inside(vector.astype(np.float64), lost, read, features)


def _lost(
    tower: Tower, vocabulary: Vocabulary, words: Sequence[str], other: NDArray[np.float32]
) -> Trigrams:
    """What the cosine loses without each known trigram: its row is taken from the word's sum."""
    ids = [np.array(vocabulary.ngram_ids(word), np.int64) for word in words]
    kernel = tower.hashing.kernel.numpy()
    hashed = np.stack([kernel[of_word].sum(axis=0) for of_word in ids])
    places = [(place, row) for place, of_word in enumerate(ids) for row in of_word]
    texts = np.repeat(hashed[None], 1 + len(places), axis=0)
    for text, (place, row) in zip(texts[1:], places, strict=True):
        text[place] -= kernel[row]
    present = np.ones(texts.shape[:2], bool)
    vectors = normalize_vectors(tower.encode(tf.constant(texts), tf.constant(present)))
    cosines = vectors.numpy().astype(np.float64) @ other
    lost = iter((cosines[0] - cosines[1:]).tolist())
    return [[(ngram, next(lost)) for ngram in _known(word, vocabulary)] for word in words]


def _known(word: str, vocabulary: Vocabulary) -> list[str]:
    """The trigrams behind `Vocabulary.ngram_ids`, and the word itself if it has a row."""
    if vocabulary.rules.hash_buckets:  # every trigram has an id
        whole = whole_word(word, vocabulary.rules.max_letters)
        known = [whole] if whole in vocabulary.whole_words else []
        return letter_ngrams(word, vocabulary.rules.max_letters) + known
    return [vocabulary.ngrams[number - 1] for number in vocabulary.ngram_ids(word)]
