"""A ranker that runs compact models with the score cosine, without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.runtime.compact_files import COSINE, CompactFiles, NamedArrays, read_compact
from dssm_tf.runtime.hashed_priors import HashedPriors
from dssm_tf.runtime.towers import TOWERS, pool
from dssm_tf.runtime.trained_ranker import SETTING_NAMES, Vectors
from dssm_tf.runtime.vector_ranker import Side, VectorRanker, no_vectors, normalize_vectors
from dssm_tf.runtime.word_vectors import WordVectors
from dssm_tf.text.rules import Key
from dssm_tf.text.vocabulary import Vocabulary

CACHED_WORDS = 50_000
"""Number of words whose vectors are cached."""
_BATCH_SIZE = 256  # texts encoded at once, so that intermediate results fit the CPU caches


class CompactRanker(VectorRanker):
    """A trained model that needs NumPy only, with the same vectors and scores as the Keras model.

    Unlike a SavedModel, it caches the output of the first layer for each word. Several threads may
    use it.

    Args:
        files: the files of a model with the score cosine.
    """

    def __init__(self, files: CompactFiles) -> None:
        settings, self.vocabulary = files.settings, files.vocabulary
        for name in SETTING_NAMES:
            setattr(self, name, settings[name])
        self.tower_name = settings["tower"]["name"]
        self._priors = HashedPriors(files)
        encoders = [
            _Encoder(settings["tower"], self.vocabulary, files.weights, name)
            for name in settings["tower_names"]
        ]
        self._encoders = {"query": encoders[0], "title": encoders[-1]}

    @classmethod
    def load(cls, directory: Path | str) -> CompactRanker:
        """Loads a compact model with the score cosine; `dssm_tf.runtime.load` loads any.

        The cache of word vectors takes four bytes per word and column of the first matrix: at most
        77 MB for 50,000 words and an LSTM with 96 cells. Models with two towers have two caches.

        Args:
            directory: a version, or a model; then its newest version is loaded.

        Raises:
            UserError: the directory does not exist or has another format, a file was damaged or
                changed, or the model has no vectors.
        """
        files = read_compact(Path(directory))
        if files.score != COSINE:
            raise no_vectors(directory)
        return cls(files)

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        texts_as_words = list(map(self.vocabulary.words, texts))
        encode = self._encoders[side].encode
        starts = range(0, max(1, len(texts_as_words)), _BATCH_SIZE)
        batches = [encode(texts_as_words[start : start + _BATCH_SIZE]) for start in starts]
        return batches[0] if len(batches) == 1 else np.concatenate(batches)

    def _weighted_priors(self, titles: Sequence[Key]) -> Vectors:
        return self._priors(titles)


class _Encoder:
    """A tower with its cache of word vectors.

    Args:
        tower: the tower's section of the configuration.
        vocabulary: the letter n-grams.
        weights: arrays of all towers, by tower and Keras name.
        tower_name: `query_tower` or `title_tower`.
    """

    def __init__(
        self,
        tower: Mapping[str, Any],
        vocabulary: Vocabulary,
        weights: NamedArrays,
        tower_name: str,
    ) -> None:
        arrays = {
            name.removeprefix(f"{tower_name}/"): array
            for name, array in weights.items()
            if name.startswith(tower_name)
        }
        kernel = arrays.pop("hashing/kernel") * arrays.pop("hashing/scale", np.float32(1))
        self._tower = TOWERS[tower["name"]](arrays, tower)
        self._word_vectors = WordVectors(
            vocabulary, kernel.astype(np.float32), self._tower.constant, CACHED_WORDS
        )

    def encode(self, texts: Sequence[list[str]]) -> Vectors:
        """Unit vectors `(len(texts), dimension)` of texts split into words."""
        rows = [row for row, text in enumerate(texts) if text]
        rows.sort(key=lambda row: -len(texts[row]))  # the longest first
        # If all texts are empty, one word is encoded to get the dimension.
        nonempty = self._vectors([texts[row] for row in rows] or [["a"]])
        vectors = np.zeros((len(texts), nonempty.shape[1]), np.float32)
        vectors[rows] = nonempty
        return vectors

    def _vectors(self, texts: Sequence[list[str]]) -> Vectors:
        """Unit vectors of texts that have words, the longest first; zero without known n-grams.

        The tower reads the words by position: the first words of all texts, then the second words
        of the texts that have one, and so on.
        """
        words: list[str] = []
        ends, count = [0], len(texts)
        for position in range(len(texts[0])):
            while len(texts[count - 1]) <= position:
                count -= 1
            words += [text[position] for text in texts[:count]]
            ends.append(len(words))
        word_vectors, is_known = self._word_vectors.look_up(words)
        spans = [slice(*span) for span in pairwise(ends)]
        vectors = normalize_vectors(self._tower([word_vectors[span] for span in spans]))
        vectors[~pool(np.logical_or, [is_known[span] for span in spans])] = 0
        return vectors
