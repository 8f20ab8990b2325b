"""The sequential dependence model: words, adjacent words and near words as features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy import sparse

from dssm_tf.baselines.base import AboveZero, Baseline, Click, Floats, Grid
from dssm_tf.baselines.dirichlet import log_likelihoods
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Ids, Tokens, count_table
from dssm_tf.baselines.windows import ordered_windows, unordered_windows

_Weight = Annotated[float, Field(ge=0, le=1000)]
Weights = Annotated[tuple[_Weight, _Weight, _Weight], Field(strict=False)]


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
    mu: Annotated[AboveZero, Grid((1.0, 3.0, 10.0, 30.0, 100.0))] = 10.0
    weights: Annotated[
        Weights,
        Grid(
            (
                (1.0, 0.0, 0.0),
                (0.90, 0.05, 0.05),
                (0.85, 0.10, 0.05),
                (0.80, 0.10, 0.10),
                (0.80, 0.20, 0.0),
                (0.80, 0.0, 0.20),
                (0.70, 0.20, 0.10),
                (0.50, 0.30, 0.20),
            )
        ),
    ] = (0.85, 0.10, 0.05)
    window: Annotated[int, Field(ge=2), Grid((4, 8))] = 8

    corpus: tuple[str, ...]

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        self.corpus = tuple(titles)

    def _index(self) -> None:
        self.terms = Terms.of_corpus(self.corpus, self.name)
        self._corpus = self.terms.tokens(self.corpus)
        self._word_shares = self._shares(self._corpus.by_word)

    def _prepare(self, titles: tuple[str, ...]) -> Tokens:
        return self._corpus if titles == self.corpus else self.terms.tokens(titles)

    def _score(self, queries: Sequence[str], prepared: Tokens) -> Floats:
        asked = self.terms.tokens(queries)
        pairs, pair_counts = adjacent_pairs(asked)
        scores = self.weights[0] * self._words(asked.counts, prepared)
        ordered = partial(ordered_windows, pairs=pairs)
        unordered = partial(unordered_windows, pairs=pairs, width=self.window)
        for weight, windows in zip(self.weights[1:], (ordered, unordered), strict=True):
            if weight > 0:
                in_corpus = windows(self._corpus)
                counts = in_corpus if prepared is self._corpus else windows(prepared)
                scores += weight * log_likelihoods(
                    pair_counts, counts, self._shares(in_corpus), prepared.lengths, self.mu
                )
        return scores

    def _words(self, asked: sparse.csr_matrix, titles: Tokens) -> Floats:
        """Sums `f` of the words that are asked for, `(queries, words)`."""
        return log_likelihoods(asked, titles.by_word, self._word_shares, titles.lengths, self.mu)

    def _shares(self, counts: sparse.csr_matrix) -> Floats:
        """`cf / |C|` of features from their counts in the corpus, `(features, titles)`."""
        totals = np.asarray(counts.sum(axis=1)).ravel()
        return np.maximum(totals, 0.5) / len(self._corpus.ids)


def adjacent_pairs(texts: Tokens) -> tuple[Ids, sparse.csr_matrix]:
    """The distinct adjacent known words of texts.

    Returns:
        Ids `(pairs, 2)`, in order, and how often each text holds each, `(texts, pairs)`.
    """
    known = texts.ids >= 0
    first = np.flatnonzero(known[:-1] & known[1:] & (texts.text[:-1] == texts.text[1:]))
    found = np.stack([texts.ids[first], texts.ids[first + 1]], axis=1)
    pairs, which = np.unique(found, axis=0, return_inverse=True)
    return pairs, count_table(texts.text[first], which.ravel(), len(texts), len(pairs))
