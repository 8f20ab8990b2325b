"""Okapi BM25, in Lucene's variant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import AtLeastZero, Baseline, Click, Floats, Grid, Share
from dssm_tf.baselines.terms import Terms


class BM25(Baseline):
    """Scores titles by the words they share with the query.

    With `f` the count of word `t` in the title, `l` the title's words, `L` the
    mean of `l`, `N` the titles of the corpus and `n` those that hold `t`:

        score = sum over words t of the query, repeats counted, of
                log(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 (1 - b + b l / L))

    That is what bm25s calculates by default. Titles outside the corpus are weighted with the
    corpus' `N`, `n` and `L`, a word the corpus lacks having `n = 0`. So a title scores the same
    in any list.

    Args:
        k1: how slowly repeats of a word in a title stop counting, at least 0.
        b: how much long titles are marked down, from 0 to 1.

    Reference: Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variants.
    """

    name = "bm25"
    prepared_with = ("k1", "b")
    k1: Annotated[AtLeastZero, Grid((0.5, 0.9, 1.2, 1.5, 2.0))] = 1.5
    b: Annotated[Share, Grid((0.0, 0.25, 0.5, 0.75, 1.0))] = 0.75

    terms: Terms
    holders: Floats
    corpus_size: int
    mean_length: float

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        self.terms = Terms.of_corpus(titles, self.name)
        counts = self.terms.count(titles)
        self.holders = np.bincount(counts.indices, minlength=len(self.terms)).astype(float)
        self.corpus_size = len(titles)
        self.mean_length = float(counts.sum() / len(titles))

    def weights_of(self, titles: Sequence[str]) -> tuple[Terms, sparse.csr_matrix]:
        """What each word adds to the score of each title.

        Returns:
            The words of the corpus and of the titles, and weights `(words, titles)`.
        """
        # Words are in alphabetical order beside any titles, so a query's words are added up in
        # the same order, to the last bit.
        terms = Terms(chain(self.terms.words, *map(self.terms.split, titles)))
        holders = np.zeros(len(terms))
        holders[[terms.ids[word] for word in self.terms.words]] = self.holders
        idf = np.log(1 + (self.corpus_size - holders + 0.5) / (holders + 0.5))
        weights = terms.count(titles)
        lengths = np.asarray(weights.sum(axis=1)).ravel()
        factors = self.k1 * (1 - self.b + self.b * lengths / self.mean_length)
        factor = np.repeat(factors, np.diff(weights.indptr))
        weights.data *= idf[weights.indices] / (weights.data + factor)
        return terms, weights.T.tocsr()

    _prepare = weights_of

    def _score(self, queries: Sequence[str], prepared: tuple[Terms, sparse.csr_matrix]) -> Floats:
        terms, weights = prepared
        return (terms.count(queries) @ weights).toarray()
