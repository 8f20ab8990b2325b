"""A trained model without TensorFlow: raw texts in, vectors and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.compact_files import Compact, read_compact
from dssm_tf.runtime.towers import TOWERS
from dssm_tf.runtime.vector_ranker import Side, VectorRanker, Vectors, unit
from dssm_tf.runtime.word_vectors import WordVectors
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import Key

WORDS = 50_000
_TEXTS = 256  # encoded at once, so that what is computed stays in the processor's caches


class Ranker(VectorRanker):
    """A trained model that needs NumPy alone; the same vectors and scores as the Keras model.

    Differs from a SavedModel by what it keeps between calls: a table of words with what the first
    matrix makes of them. Threads may share one.

    >>> from dssm_tf.runtime import Ranker
    >>> Ranker.load("nowhere")
    Traceback (most recent call last):
    dssm_tf.common.errors.UserError: nowhere holds no compact.json; ...
    """

    kind = "compact"

    def __init__(self, compact: Compact, words: int = WORDS) -> None:
        settings, self.vocabulary = compact.settings, compact.vocabulary
        self.name, self._weight = settings["name"], settings["prior_weight"]
        self.bm25_weight, self.cutoff = settings["bm25_weight"], settings["cutoff"]
        # What follows the last fingerprint is the share of any other title.
        self._known = np.append(compact.prior["titles"], np.iinfo(np.int64).max)
        shares = compact.prior["log_shares"]
        self._shares = np.append(shares, np.float32(settings["unseen"]))
        mean = shares.mean(dtype=np.float64) if len(shares) else settings["unseen"]
        self.mean_prior = self._weight * float(mean)
        sides = [_Side(compact, side, words) for side in settings["sides"]]
        self._sides = {"query": sides[0], "title": sides[-1]}

    @classmethod
    def load(cls, directory: Path | str, words: int = WORDS) -> Ranker:
        """Loads what `dssm export --format compact` wrote.

        Args:
            directory: of a version, or of a model, whose newest version is taken.
            words: words in the table; each takes four bytes for each column of the first matrix:
                50,000 words of an LSTM of 96 cells at most 77 MB. Shared towers have one table,
                others two.

        Raises:
            UserError: it is no such directory or of another format, or a file was damaged or
                changed.
        """
        return cls(read_compact(Path(directory)), words)

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        listed = list(map(self.vocabulary.words, texts))
        encode = self._sides[side].encode
        # With no text it tells the length of a vector.
        starts = range(0, max(1, len(listed)), _TEXTS)
        parts = [encode(listed[start : start + _TEXTS]) for start in starts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _weighted(self, titles: Sequence[Key]) -> Vectors:
        keys = np.fromiter(map(fingerprint64, titles), np.int64, len(titles))
        places = np.searchsorted(self._known, keys)
        found = np.where(self._known[places] == keys, self._shares[places], self._shares[-1])
        weighted: Vectors = self._weight * found
        return weighted


class _Side:
    """One tower with its words."""

    def __init__(self, compact: Compact, side: str, words: int) -> None:
        tower, start = compact.settings["tower"], f"{side}/"
        arrays = {
            name.removeprefix(start): array
            for name, array in compact.arrays.items()
            if name.startswith(start)
        }
        kernel, scale = arrays.pop("hashing/kernel"), arrays.pop("hashing/scale", None)
        self._projection = arrays.pop("projection", None)
        if tower["name"] not in TOWERS:
            raise UserError(
                f"the tower {tower['name']!r:.40} has no form in NumPy; export it for TensorFlow "
                "Serving, or write it in dssm_tf/runtime/towers.py."
            )
        self._tower = TOWERS[tower["name"]](arrays, tower)
        self._words = WordVectors(compact.vocabulary, kernel, scale, self._tower.constant, words)
        self._dimension = compact.settings["dimension"]

    def encode(self, texts: Sequence[list[str]]) -> Vectors:
        """Unit vectors `(len(texts), dimension)` of texts split into words."""
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        rows = [row for row, text in enumerate(texts) if text]
        rows.sort(key=lambda row: -len(texts[row]))  # the longest first
        if rows:
            vectors[rows] = self._vectors([texts[row] for row in rows])
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
        vectors = self._tower([found[start:end] for start, end in pairwise(ends)])
        return unit(vectors if self._projection is None else vectors @ self._projection)
