"""Okapi BM25, in Lucene's variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
from pydantic import Field, NonNegativeFloat
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes, SearchSpace
from dssm_tf.baselines.terms import Terms
from dssm_tf.common.field_types import Fraction


@dataclass(frozen=True, eq=False)
class BM25Statistics:
    """Word statistics of a corpus.

    Attributes:
        terms: the words of the corpus.
        document_frequency: `n`, the number of titles that contain each word, `(words,)`.
        corpus_size: `N`, the number of titles.
        mean_length: `L`, the mean number of words per title.
    """

    terms: Terms
    document_frequency: Floats
    corpus_size: int
    mean_length: float


class BM25(Baseline[BM25Statistics]):
    """Scores titles by the words they share with the query.

    `f` is the count of word `t` in the title, `l` the number of words of the title, `L` the mean of
    `l`, `N` the number of titles in the corpus, and `n` the number of titles that contain `t`:

        score = sum over words t of the query, repeats counted, of
                log(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 (1 - b + b l / L))

    By default, the library bm25s computes the same. For titles outside the corpus, `N`, `n` and `L`
    are those of the corpus; a word that is not in the corpus has `n = 0`. So a title has the same
    score in any list.

    Reference: Robertson and Zaragoza 2009; Kamphuis et al. 2020 for the variants.
    """

    name = "bm25"
    learned_type = BM25Statistics
    learned_shapes: ClassVar[LearnedShapes] = {
        "document_frequency": ("terms",),
        "corpus_size": (),
        "mean_length": (),
    }
    search_space: ClassVar[SearchSpace] = {
        "k1": (0.5, 0.9, 1.2, 1.5, 2.0),
        "b": (0.0, 0.25, 0.5, 0.75, 1.0),
    }
    cache_key_params = ("k1", "b")

    k1: NonNegativeFloat = Field(
        default=1.5, description="How slowly repeats of a word in a title stop counting."
    )
    b: Fraction = Field(
        default=0.75, description="How much long titles are marked down: 0 not at all, 1 in full."
    )

    def _fit(self, clicks: list[Click], titles: list[str]) -> BM25Statistics:
        terms = Terms.from_corpus(titles, self.name)
        counts = terms.count(titles)
        document_frequency = np.bincount(counts.indices, minlength=len(terms)).astype(float)
        return BM25Statistics(
            terms, document_frequency, len(titles), float(counts.sum() / len(titles))
        )

    def _encode_titles(self, titles: tuple[str, ...]) -> tuple[Terms, sparse.csr_matrix]:
        """Computes the number that each occurrence of a query word adds to each title's score.

        Returns:
            The words of the corpus and of the titles, and these numbers, `(words, titles)`.
        """
        corpus = self.learned
        # Terms are in alphabetical order in any list of titles. So a query's words are added in the
        # same order, and scores are bitwise equal in any list.
        terms = Terms(chain(corpus.terms.words, *map(corpus.terms.split, titles)))
        document_frequency = np.zeros(len(terms))
        document_frequency[[terms.ids[word] for word in corpus.terms.words]] = (
            corpus.document_frequency
        )
        idf = np.log(
            1 + (corpus.corpus_size - document_frequency + 0.5) / (document_frequency + 0.5)
        )
        weights = terms.count(titles)
        lengths = np.asarray(weights.sum(axis=1)).ravel()
        factors = self.k1 * (1 - self.b + self.b * lengths / corpus.mean_length)
        factor = np.repeat(factors, np.diff(weights.indptr))
        weights.data *= idf[weights.indices] / (weights.data + factor)
        return terms, weights.T.tocsr()

    def _score(self, queries: Sequence[str], encoded: tuple[Terms, sparse.csr_matrix]) -> Floats:
        terms, weights = encoded
        return (terms.count(queries) @ weights).toarray()
