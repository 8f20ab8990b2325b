"""The sequential dependence model: words, adjacent words and near words as features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.model_file import Arrays, Settings, texts_of
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Ids, Tokens, count_table
from dssm_tf.baselines.ulm import check_mu
from dssm_tf.baselines.windows import ordered_windows, unordered_windows
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self


class AskedWords(NamedTuple):
    """What queries ask for.

    Attributes:
        words: `(words,)` ids of the distinct known words, in order.
        word_counts: `(queries, words)` how often each query holds each.
        pairs: `(pairs, 2)` ids of the distinct adjacent words, both known, in order.
        pair_counts: `(queries, pairs)` how often each query holds each.
    """

    words: Ids
    word_counts: sparse.csr_matrix
    pairs: Ids
    pair_counts: sparse.csr_matrix


class MRF(Baseline):
    """Scores titles by the query's words and by how its adjacent words stand in the title.

    With `tf` the count of a feature in the title `D`, `cf` in all titles, `|D|` and `|C|` their
    words, a feature is worth

        f = log((tf + mu cf / |C|) / (|D| + mu))

    and the score is the weighted sum over the query's words (`tf` of the word), its adjacent
    pairs in order (`tf` of "a b") and the same pairs in any order within a window
    (`windows.unordered_windows`). Words that no title of the corpus holds are left out. A pair that
    no title holds counts as half an occurrence, because `log 0` is of no use for titles outside.

    Args:
        mu: words of the collection that a title is smoothed with, above 0.
        weights: of words, ordered pairs and unordered pairs; from 0 to 1,000.
        window: words of an unordered window, at least 2.

    Reference: Metzler and Croft 2005, the sequential dependence variant.
    """

    name = "mrf"
    free: ClassVar[Mapping[str, Sequence[Any]]] = {
        "mu": (1.0, 3.0, 10.0, 30.0, 100.0),
        "weights": (
            (1.0, 0.0, 0.0),
            (0.90, 0.05, 0.05),
            (0.85, 0.10, 0.05),
            (0.80, 0.10, 0.10),
            (0.80, 0.20, 0.0),
            (0.80, 0.0, 0.20),
            (0.70, 0.20, 0.10),
            (0.50, 0.30, 0.20),
        ),
        "window": (4, 8),
    }

    def __init__(
        self,
        mu: float = 10.0,
        weights: Sequence[float] = (0.85, 0.10, 0.05),
        window: int = 8,
    ) -> None:
        self.mu = mu
        self.weights = tuple(weights)
        self.window = window
        check_mu(mu)
        if len(self.weights) != 3 or not all(0 <= weight <= 1000 for weight in self.weights):
            raise ValueError(
                f"weights is {self.weights}; expected three numbers from 0 to 1,000: "
                "for words, ordered pairs and unordered pairs."
            )
        if window < 2:
            raise ValueError(f"window is {window}; two words need a window of at least 2.")

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Counts the words of the titles. Clicks are not used."""
        self._titles = tuple(titles)
        self._terms = Terms.of_corpus(self._titles, self.name)
        self._corpus = Tokens.of(self._titles, self._terms)
        self._kept: TitleCache[Tokens] = TitleCache()
        return self

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by sparse products over distinct features."""
        return self._score(self._asked(queries), self._tokens(titles))

    def _learned(self) -> tuple[Settings, Arrays]:
        return {"titles": self._titles}, {}  # from which the counts are made again

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        self.fit([], texts_of(settings, "titles"))

    def _tokens(self, titles: Sequence[str]) -> Tokens:
        """The words of titles; those of the corpus are there already."""
        asked = tuple(titles)
        if asked == self._titles:
            return self._corpus
        return self._kept.get(asked, lambda texts: Tokens.of(texts, self._terms))

    def _asked(self, queries: Sequence[str]) -> AskedWords:
        tokens = Tokens.of(queries, self._terms)
        known = tokens.ids >= 0
        words, places = np.unique(tokens.ids[known], return_inverse=True)
        same_query = tokens.text[:-1] == tokens.text[1:]
        first = np.flatnonzero(known[:-1] & known[1:] & same_query)
        pairs, pair_places = np.unique(
            np.stack([tokens.ids[first], tokens.ids[first + 1]], axis=1),
            axis=0,
            return_inverse=True,
        )
        return AskedWords(
            words,
            count_table(tokens.text[known], places, len(queries), len(words)),
            pairs,
            count_table(tokens.text[first], pair_places.ravel(), len(queries), len(pairs)),
        )

    def _score(self, asked: AskedWords, titles: Tokens) -> NDArray[np.float64]:
        """`(queries, titles)`."""
        words = titles.by_word[asked.words], self._corpus.by_word[asked.words]
        parts = [(self.weights[0], asked.word_counts, *words)]
        for weight, width in ((self.weights[1], None), (self.weights[2], self.window)):
            if weight > 0:
                parts.append((weight, asked.pair_counts, *self._windows(asked, titles, width)))
        return self._features(
            [
                (weight * asked_counts, counts, np.asarray(of_corpus.sum(axis=1)).ravel())
                for weight, asked_counts, counts, of_corpus in parts
            ],
            titles,
        )

    def _windows(
        self, asked: AskedWords, titles: Tokens, width: int | None
    ) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """Windows of the asked pairs in the titles and in the corpus, ordered without a width."""

        def count(tokens: Tokens) -> sparse.csr_matrix:
            if width is None:
                return ordered_windows(tokens, asked.pairs)
            return unordered_windows(tokens, asked.pairs, width)

        counts = count(titles)
        return counts, counts if titles is self._corpus else count(self._corpus)

    def _features(
        self,
        parts: Iterable[tuple[sparse.csr_matrix, sparse.csr_matrix, NDArray[np.float64]]],
        titles: Tokens,
    ) -> NDArray[np.float64]:
        """Sums the weighted features `f` of each query in each title: `(queries, titles)`.

        Args:
            parts: the weight of each feature in each query, `(queries, features)`; the counts in
                the titles, `(features, titles)`; and the counts in the corpus, `(features,)`.
            titles: the titles counted in.
        """
        # f = log(1 + tf / (mu share)) + log(share) + log(mu / (|D| + mu)): only the first term
        # depends on both the feature and the title, and it is 0 where the title lacks the feature.
        matched: Any = 0
        shared: Any = 0.0
        weight: Any = 0.0
        for asked, counts, collection in parts:
            share = np.maximum(collection, 0.5) / len(self._corpus.ids)
            gains = counts.copy()
            gains.data = np.log1p(gains.data / np.repeat(self.mu * share, np.diff(gains.indptr)))
            matched = matched + asked @ gains
            shared = shared + asked @ np.log(share)
            weight = weight + asked @ np.ones(len(share))
        scores: NDArray[np.float64] = matched.toarray()
        scores += np.outer(weight, np.log(self.mu / (titles.lengths + self.mu)))
        scores += shared[:, None]
        return scores
