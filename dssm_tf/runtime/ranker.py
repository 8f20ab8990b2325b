"""A trained model without TensorFlow: raw texts in, vectors and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.compact_files import Compact, read_compact
from dssm_tf.runtime.towers import make_tower
from dssm_tf.runtime.word_vectors import TrigramRows, WordVectors
from dssm_tf.text.fields import cut
from dssm_tf.text.fingerprint import fingerprint64

Vectors = NDArray[np.float32]

WORDS = 50_000
_TEXTS = 256  # encoded at once, so that what is computed stays in the processor's caches
_SMALLEST = 1e-12  # as `normalize_vectors` of the Keras model has it


class RankedTitle(NamedTuple):
    """A title, its score, and its place in what was asked."""

    title: str
    score: float
    position: int


class Ranker:
    """A trained model that needs NumPy alone; the same vectors and scores as the Keras model.

    Differs from a SavedModel by what it keeps between calls: a table of words with what the first
    matrix makes of them. Threads may share one.

    >>> from dssm_tf.runtime import Ranker
    >>> Ranker.load("nowhere")
    Traceback (most recent call last):
    dssm_tf.common.errors.UserError: nowhere does not exist; ...
    """

    def __init__(self, compact: Compact, words: int = WORDS) -> None:
        self.name = compact.name
        self.dimension = compact.dimension
        self.prior_weight = compact.prior_weight
        self.vocabulary = compact.vocabulary
        self._prior = _Prior(compact)
        sides = [_Side(compact, side, words) for side in compact.sides]
        self._queries, self._titles = sides[0], sides[-1]

    @classmethod
    def load(cls, directory: Path | str, words: int = WORDS) -> Ranker:
        """Loads what `dssm export --format compact` wrote.

        Args:
            directory: of a version, or of a model, whose newest version is taken.
            words: words in the table, at least as many as are read of a text (64); each takes
                four bytes for each column of the first matrix: 50,000 words of an LSTM of 96
                cells at most 77 MB. Shared towers have one table, others two.

        Raises:
            UserError: it is no such directory or of a newer format, a file was damaged or changed,
                or `words` is too small.
        """
        compact = read_compact(Path(directory))
        least = compact.vocabulary.rules.max_words
        if words < least:
            raise UserError(f"words is {words}; expected at least {least}, those of one text.")
        return cls(compact, words)

    def rank(self, query: str, titles: Sequence[str]) -> list[RankedTitle]:
        """Titles from best to worst; equal scores keep the order of `titles`."""
        scores = self.score(query, titles)
        order = np.argsort(-scores, kind="stable").tolist()
        return [RankedTitle(titles[place], float(scores[place]), place) for place in order]

    def score(self, query: str, titles: Sequence[str]) -> Vectors:
        """Scores float32 `(len(titles),)`: the cosine plus the weighted log-prior of the title."""
        row: Vectors = self.score_matrix([query], titles)[0]
        return row

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Vectors:
        """Scores `(len(queries), len(titles))`."""
        vocabulary = self.vocabulary
        # Titles that are equal to the model share one column, and tie.
        distinct, shared = vocabulary.rules.distinct(_texts("titles", titles))
        vectors = self._titles.encode(list(map(vocabulary.rules.words, distinct)))
        scores: Vectors = self.encode_queries(queries) @ vectors.T
        if self.prior_weight:
            scores += self._weighted(distinct)
        return scores[:, shared] if len(distinct) < len(shared) else scores

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors of queries, float32.

        Args:
            queries: raw texts.
            prior: False for unit vectors `(len(queries), dimension)`, whose inner product with
                a title's is the cosine, and not the score where `prior_weight` is above 0; True
                for `(len(queries), dimension + 1)`, whose inner product is the score. An empty
                query's first `dimension` numbers are zero.
        """
        vectors = self._queries.encode(
            list(map(self.vocabulary.rules.words, _texts("queries", queries)))
        )
        return _with_column(vectors, 1.0) if prior else vectors

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors of titles; see `encode_queries`."""
        forms = list(map(self.vocabulary.rules.key, _texts("titles", titles)))
        vectors = self._titles.encode(list(map(self.vocabulary.rules.words, forms)))
        return _with_column(vectors, self._weighted(forms)) if prior else vectors

    def weighted_prior(self, titles: Sequence[str]) -> Vectors:
        """What the titles' clicks add to every score, `(len(titles),)`."""
        return self._weighted(list(map(self.vocabulary.rules.key, _texts("titles", titles))))

    @property
    def mean_prior(self) -> float:
        """The mean of `weighted_prior` over the titles that were clicked."""
        return self.prior_weight * self._prior.mean

    def _weighted(self, forms: Sequence[str]) -> Vectors:
        return self.prior_weight * self._prior(forms)


class _Side:
    """One tower with its words."""

    def __init__(self, compact: Compact, side: str, words: int) -> None:
        rules = compact.vocabulary.rules
        arrays = compact.side(side)
        trigrams = TrigramRows(arrays.pop("hashing/kernel"), arrays.pop("hashing/scale", None))
        self._projection = arrays.pop("projection", None)
        self._tower = make_tower(compact.tower, arrays)
        self._words = WordVectors(compact.vocabulary, trigrams, self._tower.constant, words)
        self._dimension = compact.dimension
        self._max_words = rules.max_words
        self._max_letters = rules.max_letters
        # No more words at once than the table holds.
        self._texts = min(_TEXTS, words // rules.max_words)

    def encode(self, texts: Sequence[list[str]]) -> Vectors:
        """Unit vectors `(len(texts), dimension)` of texts split into words."""
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for start in range(0, len(texts), self._texts):
            self._encode(texts[start : start + self._texts], vectors[start : start + self._texts])
        return vectors

    def _encode(self, texts: Sequence[list[str]], vectors: Vectors) -> None:
        """Fills `vectors`, which is zero."""
        read = (word for text in texts for word in text[: self._max_words])
        words = [cut(word, self._max_letters) for word in read]
        if not words:
            return
        lengths = np.array([min(len(text), self._max_words) for text in texts])
        starts = lengths.cumsum() - lengths
        order = (-lengths).argsort(kind="stable")  # the longest first
        order = order[: np.count_nonzero(lengths)]
        found = self._tower(self._words(words), starts[order], lengths[order])
        if self._projection is not None:
            found = found @ self._projection
        squares = np.einsum("nd,nd->n", found, found)
        vectors[order] = found / np.sqrt(np.maximum(squares, _SMALLEST))[:, None]


class _Prior:
    """Log-priors of normalised titles, by their fingerprints."""

    def __init__(self, compact: Compact) -> None:
        self._known, self._log_shares = compact.known_titles, compact.log_shares
        self._unseen = compact.unseen
        shares = compact.log_shares
        self.mean = float(shares.mean(dtype=np.float64)) if len(shares) else compact.unseen

    def __call__(self, forms: Sequence[str]) -> Vectors:
        """Log-priors `(len(forms),)`, in nats."""
        keys = np.fromiter(map(fingerprint64, forms), np.int64, len(forms))
        if not len(self._known):
            return np.full(len(forms), self._unseen, np.float32)
        places = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        found = self._known[places] == keys
        return np.where(found, self._log_shares[places], np.float32(self._unseen))


def _with_column(vectors: Vectors, column: Vectors | float) -> Vectors:
    joined = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
    joined[:, :-1], joined[:, -1] = vectors, column
    return joined


def _texts(name: str, texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    return texts
