"""The unigram language model: how likely the title's words make the query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from dssm_tf.baselines.base import AboveZero, Baseline, Click, Floats, Grid
from dssm_tf.baselines.dirichlet import log_likelihoods
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Tokens

MU_GRID = Grid((1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 2500.0))


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
    mu: Annotated[AboveZero, MU_GRID] = 30.0

    terms: Terms
    background: Floats

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        self.terms = Terms.of_corpus(titles, self.name)
        self.background = word_probabilities(self.terms.tokens(titles))

    def _prepare(self, titles: tuple[str, ...]) -> Tokens:
        return self.terms.tokens(titles)

    def _score(self, queries: Sequence[str], prepared: Tokens) -> Floats:
        asked = self.terms.count(queries)
        return log_likelihoods(asked, prepared.by_word, self.background, prepared.lengths, self.mu)


def word_probabilities(titles: Tokens) -> Floats:
    """`p(w|C)`, the share of each word among the known words of a collection: `(words,)`."""
    counts = np.asarray(titles.counts.sum(axis=0)).ravel()
    return counts / max(1.0, counts.sum())
