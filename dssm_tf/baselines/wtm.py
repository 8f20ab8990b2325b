"""The word translation model: a query's words as translations of a title's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click
from dssm_tf.baselines.ibm1 import ClickedPairs, translate
from dssm_tf.baselines.model_file import Arrays, Settings, numbers, table_arrays, table_of
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Ids, Tokens
from dssm_tf.baselines.ulm import check_mu
from dssm_tf.common.errors import NoClicks
from dssm_tf.common.progress import progress_of
from dssm_tf.evaluation.title_cache import TitleCache

if TYPE_CHECKING:
    from typing_extensions import Self


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
        empty_word: whether titles hold an empty word while training, which takes the words of
            queries that no word of the title explains; it has no part in scores.
        progress: shows a bar on stderr while fitting.

    Reference: Gao, He and Nie 2010, the word translation model.
    """

    name = "wtm"
    free: ClassVar[Mapping[str, Sequence[Any]]] = {
        "mu": (1.0, 3.0, 10.0, 30.0, 100.0),
        "self_weight": (0.05, 0.1, 0.2, 0.4, 0.8, 1.0),
    }

    def __init__(
        self,
        mu: float = 3.0,
        self_weight: float = 0.2,
        *,
        iterations: int = 5,
        empty_word: bool = False,
        progress: bool = False,
    ) -> None:
        self.mu = mu
        self.self_weight = self_weight
        self.iterations = iterations
        self.empty_word = empty_word
        self.progress = progress
        check_mu(mu)
        if not 0 <= self_weight <= 1:
            raise ValueError(f"self_weight is {self_weight}; expected 0 to 1.")
        if iterations < 1:
            raise ValueError(f"iterations is {iterations}; expected at least 1.")

    def fit(self, clicks: Iterable[Click], titles: Iterable[str]) -> Self:
        """Learns translations from the clicks and counts the words of the titles."""
        pairs = ClickedPairs.of(clicks)
        if not pairs.queries:
            raise NoClicks(
                f"{self.name} got no click with words in both query and title; "
                "it learns translations from clicks."
            )
        corpus = list(titles)
        self._terms = Terms.of([*pairs.queries, *pairs.titles, *corpus])
        tokens = Tokens.of(corpus, self._terms)
        self._corpus_counts = np.bincount(tokens.ids, minlength=len(self._terms)).astype(np.float64)
        self._learn(pairs)
        self._index()
        return self

    def _index(self) -> None:
        """Makes from what was learned what is not saved."""
        self._kept: TitleCache[Tokens] = TitleCache()
        # (query words, title words): rows of a query's words are what scores are made of.
        self._origins = self._translations.T.tocsr()
        reached = np.diff(self._origins.indptr) > 0
        counts = np.maximum(self._corpus_counts, np.where(reached, 0.5, 0.0))
        # P(q | C) of each word, 0 for those that neither titles nor translations hold.
        self._background = counts / max(self._corpus_counts.sum(), 1.0)

    def _learn(self, pairs: ClickedPairs) -> None:
        """Learns from clicked pairs; sets `_translations`, `(words, words)`."""
        titles, queries = self._pair_tokens(pairs)
        self._translations = self._translate(titles, queries, pairs.clicks, self.name)[:-1]

    def _pair_tokens(self, pairs: ClickedPairs) -> tuple[Tokens, Tokens]:
        """The words of the titles and of the queries of clicked pairs."""
        return Tokens.of(pairs.titles, self._terms), Tokens.of(pairs.queries, self._terms)

    def _translate(
        self, source: Tokens, target: Tokens, clicks: NDArray[np.float64], description: str
    ) -> sparse.csr_matrix:
        """The translation table, the row of the empty word last."""
        with progress_of(description, self.iterations, self.progress) as task:
            learned = translate(
                source,
                target,
                clicks,
                iterations=self.iterations,
                empty_word=self.empty_word,
                step_done=lambda step, likelihood: task.update(step, f"{likelihood:.4f} nats"),
            )
        return learned.table

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        """Scores every title for every query by sparse products over the distinct query words."""
        asked, texts = self._terms.count(queries), self._tokens(titles)
        words = self._reachable(asked.indices)
        gains, floors = self._gains(words, self._mixed_counts(words, texts))
        asked = asked[:, words]
        scores: NDArray[np.float64] = (asked @ gains).toarray()
        scores += (asked @ floors)[:, None]
        scores -= np.outer(asked @ np.ones(len(words)), np.log(texts.lengths + self.mu))
        return scores

    def _learned(self) -> tuple[Settings, Arrays]:
        arrays = {
            "corpus_counts": self._corpus_counts,
            **table_arrays("translations", self._translations),
        }
        return {"words": self._terms.to_json()}, arrays

    def _restore(self, settings: Settings, arrays: Arrays) -> None:
        self._terms = Terms.from_json(settings["words"])
        size = len(self._terms)
        self._corpus_counts = numbers(arrays, "corpus_counts", size, least=0)
        self._translations = table_of("translations", arrays, (size, size))
        self._index()

    def _tokens(self, titles: Sequence[str]) -> Tokens:
        return self._kept.get(titles, lambda texts: Tokens.of(texts, self._terms))

    def _reachable(self, ids: Ids) -> Ids:
        """The distinct words among some that titles hold or translations give, in order."""
        words = np.unique(ids).astype(np.int64)
        words = words[words >= 0]
        reachable: Ids = words[self._background[words] > 0]
        return reachable

    def _gains(
        self, words: Ids, mixed: sparse.csr_matrix
    ) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
        """`log(|D| P_mx(q | D) + mu P(q | C))` in two parts, for reachable words.

        Args:
            words: `(words,)`.
            mixed: `|D| P_mx(q | D)`, `(words, titles)`; used up.

        Returns:
            What it is more than in a title that neither holds the word nor translates to it,
            `(words, titles)`, and what it is there, `(words,)`.
        """
        floors = self.mu * self._background[words]
        mixed.data = np.log1p(mixed.data / np.repeat(floors, np.diff(mixed.indptr)))
        return mixed, np.log(floors)

    def _mixed_counts(self, words: Ids, titles: Tokens) -> sparse.csr_matrix:
        """`|D| P_mx(q | D)` of words in the titles: `(words, titles)`."""
        translated = self._origins[words] @ titles.by_word
        mixed: sparse.csr_matrix = (
            self.self_weight * titles.by_word[words] + (1 - self.self_weight) * translated
        ).tocsr()
        return mixed
