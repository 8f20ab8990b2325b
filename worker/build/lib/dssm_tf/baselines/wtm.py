"""The word translation model: a query's words as translations of a title's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from scipy import sparse

from dssm_tf.baselines.base import AboveZero, Baseline, Click, Count, Floats, Grid, Share
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.baselines.dirichlet import log_likelihoods
from dssm_tf.baselines.ibm1 import translate
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Ids, Tokens
from dssm_tf.common.progress import progress_of


class WTM(Baseline):
    """Scores titles by the likelihood that their words, translated, give the query.

    With `P(q | w)` learned by IBM model 1 from clicked titles to queries, weighted by clicks,
    `P(w | D) = count / |D|` of a word in the title and `P(q | C)` that of all titles:

        P_mx(q | D) = self_weight P(q | D) + (1 - self_weight) sum over w of P(q | w) P(w | D)
        score = sum over words q of the query, repeats counted, of
                log((|D| P_mx(q | D) + mu P(q | C)) / (|D| + mu))

    Words that no title holds and no translation gives are left out. A word that translations give
    and no title holds counts as half an occurrence in `P(q | C)`.

    The paper smooths with one share of `P(q | C)` for all titles; here the share is the Dirichlet
    one, `mu / (|D| + mu)`, so that with `self_weight = 1`, or a table that translates each word
    into itself, the model is the unigram model of the tables, and gains are gains of translation.

    Args:
        mu: words of the collection that a title is smoothed with, above 0.
        self_weight: of a word's own occurrence against translations, from 0 to 1.
        iterations: steps of EM, at least 1.

    Reference: Gao, He and Nie 2010, the word translation model.
    """

    name = "wtm"
    mu: Annotated[AboveZero, Grid((1.0, 3.0, 10.0, 30.0, 100.0))] = 3.0
    self_weight: Annotated[Share, Grid((0.05, 0.1, 0.2, 0.4, 0.8, 1.0))] = 0.2
    iterations: Count = 5

    terms: Terms
    corpus_counts: Floats
    translations: sparse.csr_matrix
    """`P(query word | title word)`, `(words, words)`."""

    def _learn(self, clicks: list[Click], titles: list[str]) -> None:
        pairs = ClickedPairs.of(clicks, self.name)
        self.terms = Terms.of([*pairs.queries, *pairs.titles, *titles])
        self.corpus_counts = np.asarray(self.terms.count(titles).sum(axis=0)).ravel()
        of_titles, of_queries = map(self.terms.tokens, (pairs.titles, pairs.queries))
        self._learn_pairs(of_titles, of_queries, pairs.clicks)

    def _learn_pairs(self, titles: Tokens, queries: Tokens, clicks: Floats) -> None:
        self.translations = self._translate(titles, queries, clicks, self.name)

    def _translate(
        self, source: Tokens, target: Tokens, clicks: Floats, description: str
    ) -> sparse.csr_matrix:
        with progress_of(description, self.iterations, self.progress) as task:
            learned = translate(
                source,
                target,
                clicks,
                iterations=self.iterations,
                step_done=lambda step, nats: task.update(step, f"{nats:.4f} nats"),
            )
        return learned.table

    def _index(self) -> None:
        # (query words, title words): rows of a query's words are what scores are made of.
        self._origins = self.translations.T.tocsr()
        reached = np.diff(self._origins.indptr) > 0
        counts = np.maximum(self.corpus_counts, 0.5 * reached)
        # P(q | C) of each word, 0 for those that neither titles nor translations hold.
        self._background = counts / max(self.corpus_counts.sum(), 1.0)

    def _prepare(self, titles: tuple[str, ...]) -> Any:
        return self.terms.tokens(titles)

    def _score(self, queries: Sequence[str], prepared: Any) -> Floats:
        asked = self.terms.count(queries)
        used = np.unique(asked.indices)
        return log_likelihoods(
            asked[:, used],
            self._mixed_counts(used, prepared),
            self._background[used],
            prepared.lengths,
            self.mu,
        )

    def _mixed_counts(self, words: Ids, titles: Tokens) -> sparse.csr_matrix:
        """`|D| P_mx(q | D)` of words in the titles: `(words, titles)`."""
        translated = self._origins[words] @ titles.by_word
        return self.self_weight * titles.by_word[words] + (1 - self.self_weight) * translated
