"""TF-IDF vectors and their cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes
from dssm_tf.baselines.terms import Terms


@dataclass(frozen=True, eq=False)
class TfIdfStatistics:
    """Word statistics of a corpus, and the vectors of texts that follow from them.

    Attributes:
        terms: the words of the corpus.
        idf: see `idf_of`, `(words,)`.
    """

    terms: Terms
    idf: Floats

    def vectors(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """TF-IDF vectors of length 1, or 0 for a text without a known word: `(texts, words)`."""
        vectors = self.terms.count(texts)
        vectors.data *= self.idf[vectors.indices]
        rows = np.repeat(np.arange(len(texts)), np.diff(vectors.indptr))
        vectors.data /= np.sqrt(np.bincount(rows, vectors.data**2, minlength=len(texts)))[rows]
        return vectors


class TfIdf(Baseline[TfIdfStatistics]):
    """Scores a title by the cosine of its TF-IDF vector and the query's, from 0 to 1.

    The weight of word `w` in a text is `count * (1 + log((1 + N) / (1 + n)))`, with `N` the number
    of titles in the corpus and `n` the number of those that contain `w`. This is scikit-learn's
    default. Words that the corpus lacks are left out.

    Reference: Salton and Buckley 1988; Wu et al. 2014, sec. 4, for its use as a baseline.
    """

    name = "tfidf"
    learned_type: ClassVar[type[TfIdfStatistics]] = TfIdfStatistics
    learned_shapes: ClassVar[LearnedShapes] = {"idf": ("terms",)}

    def _fit(self, clicks: list[Click], titles: list[str]) -> TfIdfStatistics:
        terms = Terms.from_corpus(titles, self.name)
        return TfIdfStatistics(terms, idf_of(terms, titles))

    def _encode_titles(self, titles: tuple[str, ...]) -> sparse.csr_matrix:
        return self.learned.vectors(titles).T.tocsr()

    def _score(self, queries: Sequence[str], encoded: sparse.csr_matrix) -> Floats:
        return (self.learned.vectors(queries) @ encoded).toarray()


def idf_of(terms: Terms, titles: Sequence[str]) -> Floats:
    """`1 + log((1 + N) / (1 + n))` of each word, which is in `n` of `N` titles: `(words,)`."""
    document_frequency = np.bincount(terms.count(titles).indices, minlength=len(terms))
    return 1 + np.log((1 + len(titles)) / (1 + document_frequency))
