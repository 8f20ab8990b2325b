"""BM25 of a corpus, weighed once: what a search by words reads from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write

FILES = ("words.txt", "word_weights.npy", "word_titles.npy", "word_starts.npy")


class WordIndex:
    """The BM25 weight of each word in each title of a corpus.

    Scores as `dssm_tf.baselines.bm25.BM25` does, whose weights these are.

    Args:
        terms: the corpus' words, a `Terms`.
        weights: sparse `(words, titles)`.
    """

    def __init__(self, terms: Any, weights: Any) -> None:
        self._terms = terms
        self._weights = weights

    @classmethod
    def of(cls, titles: Sequence[str], parameters: Mapping[str, Any]) -> WordIndex:
        """Weighs the words of titles; those of equal titles count once.

        Args:
            titles: of the corpus.
            parameters: `k1` and `b`.

        Raises:
            UserError: there is no word in the titles, or the parameters mean nothing.
        """
        from dssm_tf.baselines.bm25 import BM25

        try:
            model = BM25(**parameters).fit([], dict.fromkeys(titles))
        except (TypeError, ValueError) as error:
            raise UserError(f"--hybrid: bm25 with {dict(parameters)}: {error}.") from None
        return cls(*model.weights_of(titles))

    def score(self, query: str) -> NDArray[np.float64]:
        """Scores `(titles,)`, 0 for a title that holds no word of the query."""
        scores: NDArray[np.float64] = (self._terms.count([query]) @ self._weights).toarray()[0]
        return scores

    def save(self, directory: Path) -> None:
        """Writes `FILES`."""
        arrays = (self._weights.data, self._weights.indices, self._weights.indptr)
        with atomic_write(directory / FILES[0]) as file:
            file.writelines(f"{word}\n" for word in self._terms.words)
        for name, array in zip(FILES[1:], arrays, strict=True):
            np.save(directory / name, array)

    @classmethod
    def open(cls, directory: Path, titles: int, mend: str) -> WordIndex:
        """Maps what `save` wrote into memory.

        Args:
            directory: which holds `FILES`.
            titles: how many there are.
            mend: a sentence that says what to do where they cannot be used.

        Raises:
            UserError: they cannot be used.
        """
        from scipy import sparse

        from dssm_tf.baselines.terms import Terms

        known = (directory / FILES[0]).read_text("utf-8").split("\n")[:-1]
        terms = Terms(known)
        arrays = tuple(map_array(directory / name, mend) for name in FILES[1:])
        try:
            weights = sparse.csr_matrix(arrays, shape=(len(terms), titles))
        except ValueError as error:
            raise UserError(f"{directory} holds no word weights: {error}. {mend}") from None
        return cls(terms, weights)
