"""The arrays of a search index of a model with the score maxsim."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Arrays(NamedTuple):
    """The arrays of an index: its postings, vectors and weights.

    Titles are distinct: entries of the corpus with the same words are one title. Titles are
    in the order of `dssm_tf.evaluation.ranking.tie_key`.

    Attributes:
        word_starts: int64 `(words + 1,)`, the start of each word's titles in `word_titles`.
        word_titles: int32, ascending for each word.
        pair_starts: int64 `(pairs + 1,)`, the same for pairs.
        pair_titles: int32, the same for pairs.
        title_starts: int64 `(titles + 1,)`, the start of each title's words in `title_words`.
        title_words: int32, rows of words, ascending for each title.
        title_pair_starts: int64 `(titles + 1,)`, the same for pairs.
        title_pairs: int32, the same for pairs.
        doc_starts: int64 `(titles + 1,)`, the start of each title's entries in `docs`.
        docs: int32 `(entries,)`, positions in the corpus, ascending for each title.
        pair_keys: int64 `(pairs,)`, ascending: for the words at rows `v` and `w`, `v * words + w`.
        vectors: float32 `(words, dimension)`, the unit vectors of words.
        similar_rows: int32 `(words, similar words)`, rows of the similar words of each word, most
            similar first; see `dssm_tf.runtime.similar_words`. Rows of similarity 0 do not count.
        similarities: float32 `(words, similar words)`, from 1 to 0.
        query_weights: float32 `(words,)`, the weight of each word in a query, `a` in
            `dssm_tf.runtime.maxsim`.
        word_weights: float32 `(words,)`, the weight of each word in a title, `b`.
        pair_weights: float64 `(pairs,)`, the weight of each pair in a title, `b`.
        inverse_totals: float32 `(titles,)`, the weight of the title side divided by the sum of the
            weights of a title's words and pairs.
        priors: float32 `(titles,)`, weighted log-priors.
        text_vectors: float32 `(words, dimension of texts)`, the second vector of each word times
            its weight in titles; the dimension is 0 if the model has no text vectors.
        text_scales: float32 `(titles,)`, `text_cosine` divided by the length of the sum of a
            title's `text_vectors`.
    """

    word_starts: NDArray[np.int64]
    word_titles: NDArray[np.int32]
    pair_starts: NDArray[np.int64]
    pair_titles: NDArray[np.int32]
    title_starts: NDArray[np.int64]
    title_words: NDArray[np.int32]
    title_pair_starts: NDArray[np.int64]
    title_pairs: NDArray[np.int32]
    doc_starts: NDArray[np.int64]
    docs: NDArray[np.int32]
    pair_keys: NDArray[np.int64]
    vectors: NDArray[np.float32]
    similar_rows: NDArray[np.int32]
    similarities: NDArray[np.float32]
    query_weights: NDArray[np.float32]
    word_weights: NDArray[np.float32]
    pair_weights: NDArray[np.float64]
    inverse_totals: NDArray[np.float32]
    priors: NDArray[np.float32]
    text_vectors: NDArray[np.float32]
    text_scales: NDArray[np.float32]

    @property
    def titles(self) -> int:
        """The number of distinct titles."""
        return len(self.priors)


def read_only(arrays: Arrays) -> Arrays:
    """The same arrays as plain arrays that cannot be changed.

    Numba compiles a function for each type of arguments, and recognizes the type of a memory map
    slowly.
    """
    views = [array.view(np.ndarray) for array in arrays]
    for view in views:
        view.setflags(write=False)
    return Arrays(*views)
