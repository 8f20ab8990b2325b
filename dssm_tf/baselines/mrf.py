"""The sequential dependence model: words, adjacent words and near words as features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat, PrivateAttr
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, SearchSpace
from dssm_tf.baselines.dirichlet import log_likelihoods
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Ids, Tokens, count_table
from dssm_tf.baselines.windows import ordered_windows, unordered_windows

_Weight = Annotated[float, Field(ge=0, le=1000)]
Weights = Annotated[tuple[_Weight, _Weight, _Weight], Field(strict=False)]
"""Weights of words, ordered pairs and unordered pairs. YAML and JSON give a list."""


@dataclass(frozen=True, eq=False)
class CorpusTitles:
    """The titles of a corpus; all statistics are computed from them.

    Attributes:
        titles: raw titles in the order of the corpus.
    """

    titles: tuple[str, ...]


class MRF(Baseline[CorpusTitles]):
    """Scores titles by the query's words and by the positions of its adjacent words in the title.

    `tf` is the count of a feature in the title `D`, and `cf` its count in all titles. `|D|` and
    `|C|` are the numbers of words in the title and in all titles. The value of a feature is

        f = log((tf + mu * cf / |C|) / (|D| + mu))

    The score is the weighted sum of `f` over the query's words, its adjacent pairs in order
    (`windows.ordered_windows`) and the same pairs in any order within a window
    (`windows.unordered_windows`). Words that no title of the corpus contains are left out. If no
    title contains a pair, its `cf` is 0.5, so that `f` is finite.

    Reference: Metzler and Croft 2005, the sequential dependence variant.
    """

    name = "mrf"
    learned_type = CorpusTitles
    search_space: ClassVar[SearchSpace] = {
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

    mu: PositiveFloat = Field(
        default=10.0,
        description="Dirichlet prior: number of words of the corpus added to each title.",
    )
    weights: Weights = Field(
        default=(0.85, 0.10, 0.05),
        description="Weights of words, of ordered pairs and of unordered pairs, from 0 to 1,000.",
    )
    window: Annotated[int, Field(ge=2)] = Field(
        default=8, description="Number of words of an unordered window."
    )

    _terms: Terms = PrivateAttr()
    _corpus: Tokens = PrivateAttr()
    _word_probabilities: Floats = PrivateAttr()

    def _fit(self, clicks: list[Click], titles: list[str]) -> CorpusTitles:
        return CorpusTitles(tuple(titles))

    def _build_index(self) -> None:
        self._terms = Terms.from_corpus(self.learned.titles, self.name)
        self._corpus = self._terms.tokens(self.learned.titles)
        self._word_probabilities = self._probabilities(self._corpus.by_word)

    def _encode_titles(self, titles: tuple[str, ...]) -> Tokens:
        return self._corpus if titles == self.learned.titles else self._terms.tokens(titles)

    def _score(self, queries: Sequence[str], encoded: Tokens) -> Floats:
        tokens = self._terms.tokens(queries)
        pairs, pair_counts = adjacent_pairs(tokens)
        scores = self.weights[0] * self._word_scores(tokens.counts, encoded)
        ordered = partial(ordered_windows, pairs=pairs)
        unordered = partial(unordered_windows, pairs=pairs, width=self.window)
        for weight, windows in zip(self.weights[1:], (ordered, unordered), strict=True):
            if weight > 0:
                in_corpus = windows(self._corpus)
                counts = in_corpus if encoded is self._corpus else windows(encoded)
                scores += weight * log_likelihoods(
                    pair_counts, counts, self._probabilities(in_corpus), encoded.lengths, self.mu
                )
        return scores

    def _word_scores(self, query_counts: sparse.csr_matrix, titles: Tokens) -> Floats:
        """The sum of `f` over the words of each query, `(queries, titles)`."""
        return log_likelihoods(
            query_counts, titles.by_word, self._word_probabilities, titles.lengths, self.mu
        )

    def _probabilities(self, counts: sparse.csr_matrix) -> Floats:
        """`cf / |C|` of each feature, with `cf` at least 0.5: `(features,)`.

        Args:
            counts: `(features, titles)`.
        """
        totals = np.asarray(counts.sum(axis=1)).ravel()
        return np.maximum(totals, 0.5) / len(self._corpus.ids)


def adjacent_pairs(texts: Tokens) -> tuple[Ids, sparse.csr_matrix]:
    """The distinct pairs of adjacent known words of texts.

    Returns:
        Ids of the pairs, `(pairs, 2)`, sorted; and counts of each pair in each text, `(texts,
        pairs)`.
    """
    known = texts.ids >= 0
    first = np.flatnonzero(
        known[:-1] & known[1:] & (texts.text_indices[:-1] == texts.text_indices[1:])
    )
    occurrences = np.stack([texts.ids[first], texts.ids[first + 1]], axis=1)
    pairs, pair = np.unique(occurrences, axis=0, return_inverse=True)
    return pairs, count_table(texts.text_indices[first], pair.ravel(), len(texts), len(pairs))
