"""The unigram language model: how likely the title's words make the query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.collection import Collection
from dssm_tf.baselines.model_file import Arrays, Settings, numbers
from dssm_tf.baselines.terms import Terms

if TYPE_CHECKING:
    from typing_extensions import Self

MU_GRID = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 2500.0)


class ULM(Baseline):
    """Scores a title by the log-likelihood of the query under its smoothed words.

    `score = sum over words w of the query of log p(w|D)`, in nats, with
    `p(w|D) = (count of w in D + mu p(w|C)) / (words of D + mu)`. A word that the
    corpus lacks has probability 0 in every title; it is left out.

    Args:
        mu: words of the collection that every title is padded with, above 0. Near 0 the
            title's own frequencies decide, far above the length of titles the words'
            rarity.

    Reference: Zhai and Lafferty 2001 (Dirichlet prior).
    """

    name = "ulm"
    free: ClassVar[Mapping[str, Sequence[Any]]] = {"mu": MU_GRID}

    def __init__(self, mu: float = 30.0) -> None:
        check_mu(mu)
        self.mu = mu

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Counts the words of the titles. Clicks are not used; equal titles count once each."""
        titles = list(titles)
        self._collection = Collection.of(Terms.of_corpus(titles, "ULM"), titles)
        return self

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by one sparse product.

        With `a = mu p(w|C)`, `log p(w|D)` is `log(1 + count / a)`, which is 0
        for most words, `+ log(a)` `- log(words of D + mu)`.
        """
        counted = self._collection.titles(titles)
        asked = self._collection.terms.count(queries)
        prior = self.mu * self._collection.probabilities
        # Only the words of these queries, in alphabetical order as before.
        used = np.unique(asked.indices)
        rows = counted.words[used]
        rows.data = np.log1p(rows.data / np.repeat(prior[used], np.diff(rows.indptr)))
        asked = asked[:, used]
        matched: NDArray[np.float64] = (asked @ rows).toarray()
        words = asked @ np.ones(len(used))
        collection = asked @ np.log(prior[used])
        scores: NDArray[np.float64] = (
            matched + collection[:, None] - words[:, None] * np.log(counted.lengths + self.mu)
        )
        return scores

    def _learned(self) -> tuple[Settings, Arrays]:
        collection = self._collection
        return {"words": collection.terms.to_json()}, {"probabilities": collection.probabilities}

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        terms = Terms.from_json(settings["words"])
        self._collection = Collection(terms, numbers(arrays, "probabilities", len(terms), least=0))


def check_mu(mu: float) -> None:
    """Raises ValueError unless mu is above 0 and finite."""
    if not 0 < mu < np.inf:
        raise ValueError(f"mu is {mu}; expected a number of words above 0.")
