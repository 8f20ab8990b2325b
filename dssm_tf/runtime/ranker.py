"""A trained model without TensorFlow: raw texts in, vectors and scores out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dssm_tf.runtime.compact_files import Arrays, read_compact
from dssm_tf.runtime.towers import TOWERS
from dssm_tf.runtime.vector_ranker import SETTING_NAMES, Side, VectorRanker, Vectors, unit
from dssm_tf.runtime.word_vectors import WordVectors
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import Key
from dssm_tf.text.vocabulary import Vocabulary

WORDS = 50_000
_TEXTS = 256  # encoded at once, so that what is computed stays in the processor's caches


class Ranker(VectorRanker):
    """A trained model that needs NumPy alone; the same vectors and scores as the Keras model.

    Differs from a SavedModel by what it keeps between calls: a table of words with what the first
    matrix makes of them. Threads may share one.

    >>> from dssm_tf.runtime import Ranker
    >>> Ranker.load("nowhere")
    Traceback (most recent call last):
    dssm_tf.common.errors.UserError: nowhere does not exist; ...
    """

    def __init__(
        self, settings: Mapping[str, Any], vocabulary: Vocabulary, weights: Arrays, prior: Arrays
    ) -> None:
        self.vocabulary = vocabulary
        for one in SETTING_NAMES:
            setattr(self, one, settings[one])
        # What follows the last fingerprint is the share of any other title.
        self._known = np.append(prior["titles"], np.iinfo(np.int64).max)
        self._shares = np.append(prior["log_shares"], np.float32(settings["unseen"]))
        sides = [_Side(settings["tower"], vocabulary, weights, one) for one in settings["sides"]]
        self._sides = {"query": sides[0], "title": sides[-1]}

    @classmethod
    def load(cls, directory: Path | str) -> Ranker:
        """Loads what `dssm export --format compact` wrote.

        A table of 50,000 words of an LSTM of 96 cells takes at most 77 MB, four bytes a word and
        column of the first matrix. Shared towers have one table, others two.

        Args:
            directory: of a version, or of a model, whose newest version is taken.

        Raises:
            UserError: it is no such directory or of another format, or a file was damaged or
                changed.
        """
        return cls(*read_compact(Path(directory)))

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        listed = list(map(self.vocabulary.words, texts))
        encode = self._sides[side].encode
        starts = range(0, max(1, len(listed)), _TEXTS)
        parts = [encode(listed[start : start + _TEXTS]) for start in starts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _weighted_priors(self, titles: Sequence[Key]) -> Vectors:
        keys = np.fromiter(map(fingerprint64, titles), np.int64, len(titles))
        places = np.searchsorted(self._known, keys)
        found = np.where(self._known[places] == keys, self._shares[places], self._shares[-1])
        return np.multiply(self.prior_weight, found, dtype=np.float32)


class _Side:
    """One tower with its words."""

    def __init__(
        self, tower: Mapping[str, Any], vocabulary: Vocabulary, weights: Arrays, side: str
    ) -> None:
        arrays = {
            name.removeprefix(f"{side}/"): array
            for name, array in weights.items()
            if name.startswith(side)
        }
        kernel = arrays.pop("hashing/kernel") * arrays.pop("hashing/scale", np.float32(1))
        self._tower = TOWERS[tower["name"]](arrays, tower)
        size = max(WORDS, _TEXTS * vocabulary.rules.max_words)
        self._words = WordVectors(vocabulary, kernel.astype(np.float32), self._tower.constant, size)

    def encode(self, texts: Sequence[list[str]]) -> Vectors:
        """Unit vectors `(len(texts), dimension)` of texts split into words."""
        rows = [row for row, text in enumerate(texts) if text]
        rows.sort(key=lambda row: -len(texts[row]))  # the longest first
        # With no text it tells the length of a vector.
        found = self._vectors([texts[row] for row in rows] or [["a"]])
        vectors = np.zeros((len(texts), found.shape[1]), np.float32)
        vectors[rows] = found
        return vectors

    def _vectors(self, texts: Sequence[list[str]]) -> Vectors:
        """The same of texts with words, the longest first."""
        words: list[str] = []
        ends, count = [0], len(texts)
        for step in range(len(texts[0])):
            while len(texts[count - 1]) <= step:
                count -= 1
            words += [text[step] for text in texts[:count]]
            ends.append(len(words))
        found = self._words(words)
        return unit(self._tower([found[start:end] for start, end in pairwise(ends)]))
