"""The word translation model: treats the words of a query as translations of a title's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from pydantic import Field, PositiveFloat, PrivateAttr
from scipy import sparse

from dssm_tf.baselines.base import Baseline, Click, Floats, LearnedShapes, SearchSpace
from dssm_tf.baselines.clicked_pairs import ClickedPairs
from dssm_tf.baselines.dirichlet import log_likelihoods
from dssm_tf.baselines.ibm1 import translate
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tokens import Ids, Tokens
from dssm_tf.common.field_types import Fraction, PositiveInt
from dssm_tf.common.progress import progress_of


@dataclass(frozen=True, eq=False)
class WordTranslations:
    """Translation probabilities of words, and the word counts of the corpus.

    Attributes:
        terms: the words of queries and titles.
        corpus_counts: occurrences of each word in the corpus, `(words,)`.
        translations: `P(query word | title word)`, `(words, words)`.
    """

    terms: Terms
    corpus_counts: Floats
    translations: sparse.csr_matrix


TranslationsT = TypeVar("TranslationsT", bound=WordTranslations)


class TranslationModel(Baseline[TranslationsT], Generic[TranslationsT]):
    """Base of the models that score titles by word translations, learned by IBM model 1."""

    mu: PositiveFloat = Field(
        default=3.0,
        description="Smoothing: words, distributed as in the collection, added to each title.",
    )
    self_weight: Fraction = Field(
        default=0.2, description="Weight of a word's own occurrence against translations."
    )
    iterations: PositiveInt = Field(
        default=5, description="EM steps of IBM model 1, per direction."
    )

    _translations_by_query_word: sparse.csr_matrix = PrivateAttr()
    _background: Floats = PrivateAttr()

    def _translate(
        self, source: Tokens, target: Tokens, clicks: Floats, description: str
    ) -> sparse.csr_matrix:
        with progress_of(description, self.iterations, self._show_progress) as task:
            translation = translate(
                source,
                target,
                clicks,
                iterations=self.iterations,
                on_step_end=lambda step, nats: task.update(step, f"{nats:.4f} nats"),
            )
        return translation.table

    def _build_index(self) -> None:
        counts = self.learned.corpus_counts
        # (query words, title words): scores read the rows of a query's words.
        self._translations_by_query_word = self.learned.translations.T.tocsr()
        reached = np.diff(self._translations_by_query_word.indptr) > 0
        # P(q | C) of each word; 0 if neither titles nor translations contain the word.
        self._background = np.maximum(counts, 0.5 * reached) / max(counts.sum(), 1.0)

    def _encode_titles(self, titles: tuple[str, ...]) -> Any:
        return self.learned.terms.tokens(titles)

    def _score(self, queries: Sequence[str], encoded: Any) -> Floats:
        query_counts = self.learned.terms.count(queries)
        used = np.unique(query_counts.indices)
        return log_likelihoods(
            query_counts[:, used],
            self._mixed_counts(used, encoded),
            self._background[used],
            encoded.lengths,
            self.mu,
        )

    def _mixed_counts(self, words: Ids, titles: Tokens) -> sparse.csr_matrix:
        """`|D| P_mx(q | D)` of each word and title: `(words, titles)`."""
        translated = self._translations_by_query_word[words] @ titles.by_word
        return self.self_weight * titles.by_word[words] + (1 - self.self_weight) * translated


class WTM(TranslationModel[WordTranslations]):
    """Scores titles by the likelihood that their words are translated into the query.

    IBM model 1 learns `P(q | w)` from clicked titles and their queries, weighted by clicks.
    `P(w | D)` is the number of times that the title contains the word `w`, divided by its number of
    words `|D|`. `P(q | C)` is the same fraction over the words of all titles. Then:

        P_mx(q | D) = self_weight P(q | D) + (1 - self_weight) sum over w of P(q | w) P(w | D)
        score = sum over words q of the query, repeats counted, of
                log((|D| P_mx(q | D) + mu P(q | C)) / (|D| + mu))

    A query word is left out if no title contains it and no word is translated into it. A word that
    only translations contain counts as half an occurrence in `P(q | C)`.

    The paper gives `P(q | C)` the same weight for all titles. Here, its weight is that of Dirichlet
    smoothing, `mu / (|D| + mu)`. So with `self_weight = 1`, or if each word is translated only into
    itself, this is the unigram model `ULM`, and any gain over `ULM` comes from translation.

    Reference: Gao, He and Nie 2010, the word translation model.
    """

    name = "wtm"
    learned_type = WordTranslations
    learned_shapes: ClassVar[LearnedShapes] = {
        "corpus_counts": ("terms",),
        "translations": ("terms", "terms"),
    }
    search_space: ClassVar[SearchSpace] = {
        "mu": (1.0, 3.0, 10.0, 30.0, 100.0),
        "self_weight": (0.05, 0.1, 0.2, 0.4, 0.8, 1.0),
    }

    def _fit(self, clicks: list[Click], titles: list[str]) -> WordTranslations:
        pairs = PairTokens.from_clicks(clicks, titles, self.name)
        translations = self._translate(pairs.titles, pairs.queries, pairs.clicks, self.name)
        return WordTranslations(pairs.terms, pairs.corpus_counts, translations)


class PairTokens(NamedTuple):
    """The clicked pairs of a log as word ids.

    Attributes:
        terms: the words of queries, clicked titles and the corpus.
        corpus_counts: occurrences of each word in the corpus, `(words,)`.
        queries: the query of each pair.
        titles: the clicked title of each pair.
        clicks: the clicks of each pair, `(pairs,)`.
    """

    terms: Terms
    corpus_counts: Floats
    queries: Tokens
    titles: Tokens
    clicks: Floats

    @classmethod
    def from_clicks(cls, clicks: Sequence[Click], titles: Sequence[str], name: str) -> PairTokens:
        """Looks up the words of a log.

        Args:
            clicks: the log.
            titles: the corpus.
            name: name of the model, for errors.

        Raises:
            NoClicksError: there is no clicked pair.
        """
        pairs = ClickedPairs.from_clicks(clicks, name)
        terms = Terms.from_texts([*pairs.queries, *pairs.titles, *titles])
        corpus_counts = np.asarray(terms.count(titles).sum(axis=0)).ravel()
        queries, clicked = terms.tokens(pairs.queries), terms.tokens(pairs.titles)
        return cls(terms, corpus_counts, queries, clicked, pairs.clicks)
