"""TF-IDF vectors and their cosine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import Arrays, Settings, numbers
from dssm_tf.baselines.terms import Terms
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self


class Weighting:
    """Turns texts into TF-IDF vectors of length 1.

    The weight of word `w` in a text is `count * (1 + log((1 + N) / (1 + n)))`
    with `N` titles of the corpus and `n` that hold `w`: the form scikit-learn
    has by default. Words the corpus lacks are left out.

    Args:
        terms: the words.
        rarity: the second factor, aligned with `terms.words`.
    """

    def __init__(self, terms: Terms, rarity: NDArray[np.float64]) -> None:
        self.terms = terms
        self.rarity = rarity

    @classmethod
    def of(
        cls,
        titles: Sequence[str],
        name: str,
        kind: type[Terms] = Terms,
    ) -> Weighting:
        """Counts in how many titles each word stands.

        Args:
            titles: of the corpus.
            name: of the model.
            kind: what stands for words.

        Raises:
            UserError: there is no word in the titles.
        """
        terms = kind.of_corpus(titles, name)
        holders = np.bincount(terms.count(titles).indices, minlength=len(terms))
        return cls(terms, 1 + np.log((1 + len(titles)) / (1 + holders)))

    @classmethod
    def restored(
        cls,
        settings: Settings,
        arrays: Arrays,
        kind: type[Terms] = Terms,
    ) -> Weighting:
        """Of `words` and `rarity` as they were saved; see `of`."""
        terms = kind.from_json(settings["words"])
        return cls(terms, numbers(arrays, "rarity", len(terms)))

    def vectors(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Vectors of length 1, or 0 for a text without a known word: `(texts, words)`."""
        vectors = self.terms.count(texts)
        vectors.data *= self.rarity[vectors.indices]
        rows = np.repeat(np.arange(len(texts)), np.diff(vectors.indptr))
        lengths = np.sqrt(np.bincount(rows, vectors.data**2, minlength=len(texts)))
        vectors.data /= lengths[rows]
        return vectors


class TfIdf(Baseline):
    """Scores a title by the cosine of its TF-IDF vector and the query's, from 0 to 1.

    Reference: Salton and Buckley 1988; W14 section 4 for its use as a baseline.
    """

    name = "tfidf"
    terms: ClassVar[type[Terms]] = Terms
    """What is counted: words."""

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Counts the words of the titles. Clicks are not used; equal titles count once each."""
        return self._set(Weighting.of(list(titles), "TF-IDF", self.terms))

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by one sparse product."""
        ranked = self._titles.get(titles, lambda texts: self._weighting.vectors(texts).T.tocsr())
        scores: NDArray[np.float64] = (self._weighting.vectors(queries) @ ranked).toarray()
        return scores

    def _learned(self) -> tuple[Settings, Arrays]:
        return {"words": self._weighting.terms.to_json()}, {"rarity": self._weighting.rarity}

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        self._set(Weighting.restored(settings, arrays, self.terms))

    def _set(self, weighting: Weighting) -> Self:
        self._weighting = weighting
        self._titles: TitleCache[sparse.csr_matrix] = TitleCache()
        return self
