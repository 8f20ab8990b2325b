"""Unit vectors of any model as a `Ranker`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.title_cache import TitleCache

Cosines = NDArray[np.floating[Any]]
Encode = Callable[[Sequence[str]], NDArray[np.floating[Any]]]


class ByCosine:
    """Ranks by the inner product of unit vectors; titles are encoded once.

    Args:
        name: what tables call it.
        queries: raw queries to unit vectors `(queries, dimension)`.
        titles: the same for titles.
        distinct: titles to those that the model tells apart, and the place of each among them;
            by default all different texts.
    """

    def __init__(
        self, name: str, queries: Encode, titles: Encode, distinct: Callable[..., Any] | None = None
    ) -> None:
        self.name = name
        self._queries = queries
        self._titles = titles
        self._distinct = distinct or (lambda texts: np.unique(texts, return_inverse=True))
        self._cache: TitleCache[tuple[Cosines, NDArray[np.intp]]] = TitleCache()

    def score(self, query: str, titles: Sequence[str]) -> Cosines:
        """Cosines `(len(titles),)`."""
        row: Cosines = self.score_matrix([query], titles)[0]
        return row

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Cosines:
        """Cosines `(len(queries), len(titles))`."""
        vectors, shared = self._cache.get(titles, self._encode)
        cosines: Cosines = (self._queries(queries) @ vectors.T)[:, shared]
        return cosines

    def _encode(self, titles: Sequence[str]) -> tuple[Cosines, NDArray[np.intp]]:
        distinct, shared = self._distinct(titles)
        return self._titles(list(distinct)), shared


def without_prior(model: Any) -> ByCosine:
    """A trained model, in whichever form, by its cosine alone: what it makes of the texts."""
    distinct = model.vocabulary.rules.distinct
    return ByCosine(model.name, model.encode_queries, model.encode_titles, distinct)
