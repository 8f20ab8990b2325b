"""A trained model without TensorFlow: raw texts in, vectors and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.compact_files import Compact, read_compact
from dssm_tf.runtime.towers import TOWERS
from dssm_tf.runtime.vector_ranker import Side, VectorRanker, Vectors
from dssm_tf.runtime.word_vectors import WordVectors
from dssm_tf.text.fields import cut
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.rules import Key

WORDS = 50_000
_TEXTS = 256  # encoded at once, so that what is computed stays in the processor's caches
_SMALLEST = 1e-12  # as `normalize_vectors` of the Keras model has it


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
        self.name, self._dimension = settings["name"], settings["dimension"]
        self.bm25_weight, self.cutoff = settings["bm25_weight"], settings["cutoff"]
        self._prior_weight = settings["prior_weight"]
        self._known, shares = compact.prior["titles"], compact.prior["log_shares"]
        unseen = settings["unseen"]
        self._shares = np.append(shares, np.float32(unseen))
        mean = float(shares.mean(dtype=np.float64)) if len(shares) else unseen
        self.mean_prior = self._prior_weight * mean
        sides = [_Side(compact, side, words) for side in settings["sides"]]
        self._sides = {"query": sides[0], "title": sides[-1]}

    @classmethod
    def load(cls, directory: Path | str, words: int = WORDS) -> Ranker:
        """Loads what `dssm export --format compact` wrote.

        Args:
            directory: of a version, or of a model, whose newest version is taken.
            words: words in the table, at least as many as are read of a text (64); each takes
                four bytes for each column of the first matrix: 50,000 words of an LSTM of 96
                cells at most 77 MB. Shared towers have one table, others two.

        Raises:
            UserError: it is no such directory or of another format, a file was damaged or changed,
                or `words` is too small.
        """
        compact = read_compact(Path(directory))
        least = compact.vocabulary.rules.max_words
        if words < least:
            raise UserError(f"words is {words}; expected at least {least}, those of one text.")
        return cls(compact, words)

    @property
    def dimension(self) -> int:
        """Length of a semantic vector."""
        return int(self._dimension)

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        return self._sides[side].encode(list(map(self.vocabulary.rules.words, texts)))

    def _weighted(self, titles: Sequence[Key]) -> Vectors:
        keys = np.fromiter(map(fingerprint64, titles), np.int64, len(titles))
        places = np.searchsorted(self._known, keys)
        found = self._known.take(places, mode="clip") == keys if len(self._known) else False
        weighted: Vectors = self._prior_weight * self._shares[np.where(found, places, -1)]
        return weighted


class _Side:
    """One tower with its words."""

    def __init__(self, compact: Compact, side: str, words: int) -> None:
        arrays, tower = compact.side(side), compact.settings["tower"]
        kernel, scale = arrays.pop("hashing/kernel"), arrays.pop("hashing/scale", None)
        self._projection = arrays.pop("projection", None)
        if tower["name"] not in TOWERS:
            raise UserError(
                f"the tower {tower['name']!r:.40} has no form in NumPy; export it for TensorFlow "
                "Serving, or write it in dssm_tf/runtime/towers.py."
            )
        self._tower = TOWERS[tower["name"]](arrays, tower)
        self._words = WordVectors(compact.vocabulary, kernel, scale, self._tower.constant, words)
        self._dimension, self._rules = compact.settings["dimension"], compact.vocabulary.rules
        # No more words at once than the table holds.
        self._texts = min(_TEXTS, words // self._rules.max_words)

    def encode(self, texts: Sequence[list[str]]) -> Vectors:
        """Unit vectors `(len(texts), dimension)` of texts split into words."""
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for start in range(0, len(texts), self._texts):
            self._encode(texts[start : start + self._texts], vectors[start : start + self._texts])
        return vectors

    def _encode(self, texts: Sequence[list[str]], vectors: Vectors) -> None:
        """Fills `vectors`, which is zero."""
        most, letters = self._rules.max_words, self._rules.max_letters
        words = [cut(word, letters) for text in texts for word in text[:most]]
        if not words:
            return
        lengths = np.array([min(len(text), most) for text in texts])
        starts = lengths.cumsum() - lengths
        order = (-lengths).argsort(kind="stable")  # the longest first
        order = order[: np.count_nonzero(lengths)]
        found = self._tower(self._words(words), starts[order], lengths[order])
        if self._projection is not None:
            found = found @ self._projection
        squares = np.einsum("nd,nd->n", found, found)
        vectors[order] = found / np.sqrt(np.maximum(squares, _SMALLEST))[:, None]
