"""The unigram language model: the likelihood of the query under the title's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field, PositiveFloat

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes, SearchSpace
from dssm_tf.baselines.dirichlet import log_likelihoods
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Tokens

MU_VALUES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 2500.0)
"""The search space of `mu` here and in the topic models."""


@dataclass(frozen=True, eq=False)
class UnigramStatistics:
    """Word statistics of a corpus.

    Attributes:
        terms: the words of the corpus.
        background: `p(w|C)`, `(words,)`.
    """

    terms: Terms
    background: Floats


class ULM(Baseline[UnigramStatistics]):
    """Scores a title by the log-likelihood of the query under its smoothed words.

    `score = sum over words w of the query of log p(w|D)`, in nats, with
    `p(w|D) = (count of w in D + mu p(w|C)) / (words of D + mu)`. A word that the corpus lacks has
    probability 0 in every title and is left out.

    Reference: Zhai and Lafferty 2001 (Dirichlet prior).
    """

    name = "ulm"
    learned_type = UnigramStatistics
    learned_shapes: ClassVar[LearnedShapes] = {"background": ("terms",)}
    search_space: ClassVar[SearchSpace] = {"mu": MU_VALUES}

    mu: PositiveFloat = Field(
        default=30.0,
        description="Smoothing: number of words, distributed as in the collection, added to each "
        "title. The larger, the more the score depends on the rarity of the matching words.",
    )

    def _fit(self, clicks: list[Click], titles: list[str]) -> UnigramStatistics:
        terms = Terms.from_corpus(titles, self.name)
        return UnigramStatistics(terms, word_probabilities(terms.tokens(titles)))

    def _encode_titles(self, titles: tuple[str, ...]) -> Tokens:
        return self.learned.terms.tokens(titles)

    def _score(self, queries: Sequence[str], encoded: Tokens) -> Floats:
        counts = self.learned.terms.count(queries)
        return log_likelihoods(
            counts, encoded.by_word, self.learned.background, encoded.lengths, self.mu
        )


def word_probabilities(titles: Tokens) -> Floats:
    """`p(w|C)`, the frequency of each word among the known words of a collection: `(words,)`."""
    counts = np.asarray(titles.counts.sum(axis=0)).ravel()
    return counts / max(1.0, counts.sum())
