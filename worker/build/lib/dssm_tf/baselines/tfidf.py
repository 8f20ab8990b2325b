"""TF-IDF vectors and their cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats
from dssm_tf.baselines.terms import Terms


class TfIdf(Baseline):
    """Scores a title by the cosine of its TF-IDF vector and the query's, from 0 to 1.

    The weight of word `w` in a text is `count * (1 + log((1 + N) / (1 + n)))`
    with `N` titles of the corpus and `n` that hold `w`: the form scikit-learn
    has by default. Words the corpus lacks are left out.

    Reference: Salton and Buckley 1988; W14 section 4 for its use as a baseline.
    """

    name = "tfidf"
    counted: ClassVar[type[Terms]] = Terms

    terms: Terms
    idf: Floats

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        self.terms = self.counted.of_corpus(titles, self.name)
        holders = np.bincount(self.terms.count(titles).indices, minlength=len(self.terms))
        self.idf = 1 + np.log((1 + len(titles)) / (1 + holders))

    def weighted(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """TF-IDF vectors of length 1, or 0 for a text without a known word: `(texts, words)`."""
        vectors = self.terms.count(texts)
        vectors.data *= self.idf[vectors.indices]
        rows = np.repeat(np.arange(len(texts)), np.diff(vectors.indptr))
        vectors.data /= np.sqrt(np.bincount(rows, vectors.data**2, minlength=len(texts)))[rows]
        return vectors

    def _prepare(self, titles: tuple[str, ...]) -> Any:
        return self.weighted(titles).T.tocsr()

    def _score(self, queries: Sequence[str], prepared: Any) -> Floats:
        return (self.weighted(queries) @ prepared).toarray()
