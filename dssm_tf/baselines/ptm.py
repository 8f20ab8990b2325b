"""The phrase translation model: a query's phrases as translations of a title's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr
from scipy import sparse

from dssm_tf.baselines.base import Click, Floats, LearnedShapes, SearchSpace
from dssm_tf.baselines.bi_phrases import extract, phrase_keys
from dssm_tf.baselines.dirichlet import log_gains
from dssm_tf.baselines.tokens import Ids, Tokens, count_table, index_in
from dssm_tf.baselines.wtm import PairTokens, TranslationModel, WordTranslations
from dssm_tf.common.field_types import Fraction


@dataclass(frozen=True, eq=False)
class PhraseTranslations(WordTranslations):
    """Translation probabilities of words and of phrases.

    Attributes:
        terms: see `WordTranslations`.
        corpus_counts: see `WordTranslations`.
        translations: see `WordTranslations`.
        title_phrases: keys of `bi_phrases.phrase_keys`, sorted, `(title phrases,)`.
        query_phrases: the same for queries, `(query phrases,)`.
        bi_phrases: `P(query phrase | title phrase)`, `(title phrases, query phrases)`.
    """

    title_phrases: Ids
    query_phrases: Ids
    bi_phrases: sparse.csr_matrix


class PTM(TranslationModel[PhraseTranslations]):
    """Scores titles by the word translation model and by the best way to translate phrases.

    `P(q | w)` is the relative frequency of a bi-phrase (see `bi_phrases.extract`). `P(w | D)` is
    the fraction of the title's phrases of up to `longest` words that equal `w`. `P_mx` and
    `P(q | C)` are the same as in `WTM` for a single word, and 0 for a longer phrase:

        P_ph(q | D) = sum over phrases w of P(q | w) P(w | D)
        p(q | D) = (1 - s) ((1 - phrase_fraction) P_mx(q | D) + phrase_fraction P_ph(q | D))
                   + s P(q | C),  s = mu / (|D| + mu)

    The phrase model's likelihood of a query is computed by dynamic programming:

        log P_pt(Q | D) = max over segmentations of the query into phrases of up to `longest` words
            of the sum over its phrases q of log p(q | D)

    The score is that of the paper's linear ranking model:

        (1 - phrase_weight) (score of `WTM`) + phrase_weight log P_pt(Q | D)

    For each query phrase, the paper uses only the title phrase that the word alignment links to it.
    Here, the score sums over all title phrases, which needs no alignment of each query with each
    title. Words that `WTM` leaves out are left out here, too, and no phrase contains them.

    Reference: Gao, He and Nie 2010, the phrase translation model.
    """

    name = "ptm"
    learned_type = PhraseTranslations
    learned_shapes: ClassVar[LearnedShapes] = {
        "corpus_counts": ("terms",),
        "translations": ("terms", "terms"),
        "title_phrases": ("title phrases",),
        "query_phrases": ("query phrases",),
        "bi_phrases": ("title phrases", "query phrases"),
    }
    search_space: ClassVar[SearchSpace] = {
        "mu": (1.0, 3.0, 10.0),
        "self_weight": (0.1, 0.2, 0.4, 0.8, 1.0),
        "phrase_weight": (0.0, 0.1, 0.2, 0.4, 1.0),
        "phrase_fraction": (0.5, 0.8, 0.95),
    }

    phrase_weight: Fraction = Field(
        default=0.1, description="Weight of the phrase model in the score; 0 is `wtm`."
    )
    phrase_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.8,
        description="Weight of phrases against single words inside the phrase model. It is below "
        "1, because single words must keep a probability.",
    )
    longest: Annotated[int, Field(ge=1, le=3)] = Field(
        default=3, description="Largest number of words in a phrase."
    )

    _bi_phrases_by_query_phrase: sparse.csr_matrix = PrivateAttr()

    def _fit(self, clicks: list[Click], titles: list[str]) -> PhraseTranslations:
        pairs = PairTokens.from_clicks(clicks, titles, self.name)
        to_query = self._translate(
            pairs.titles, pairs.queries, pairs.clicks, f"{self.name}: title to query"
        )
        to_title = self._translate(
            pairs.queries, pairs.titles, pairs.clicks, f"{self.name}: query to title"
        )
        phrases = extract(
            pairs.queries, pairs.titles, pairs.clicks, to_query, to_title, self.longest
        )
        return PhraseTranslations(pairs.terms, pairs.corpus_counts, to_query, *phrases)

    def _build_index(self) -> None:
        super()._build_index()
        # (query phrases + 1, title phrases). The last row is empty: index -1 means "no phrase".
        no_phrase = sparse.csr_matrix((1, len(self.learned.title_phrases)))
        self._bi_phrases_by_query_phrase = sparse.vstack(
            [self.learned.bi_phrases.T, no_phrase], format="csr"
        )

    def _encode_titles(self, titles: tuple[str, ...]) -> tuple[Tokens, sparse.csr_matrix]:
        tokens = self.learned.terms.tokens(titles)
        return tokens, self._phrase_counts(tokens)

    def _score(self, queries: Sequence[str], encoded: Any) -> Floats:
        scores = super()._score(queries, encoded[0])
        if self.phrase_weight > 0:
            scores *= 1 - self.phrase_weight
            scores += self.phrase_weight * self._phrase_scores(queries, *encoded)
        return scores

    def _phrase_scores(
        self, queries: Sequence[str], titles: Tokens, phrase_counts: sparse.csr_matrix
    ) -> Floats:
        """`log P_pt(Q | D)` by dynamic programming over the words of each query."""
        tokens = self.learned.terms.tokens(queries)
        words = np.unique(tokens.ids[tokens.ids >= 0])
        words = words[self._background[words] > 0]
        gains, log_pseudo_counts = log_gains(
            self._single_word_counts(words, titles, phrase_counts),
            self.mu * self._background[words],
        )
        word_at = index_in(tokens.ids, words)
        phrases_at, phrase_log_counts = self._phrase_log_counts(tokens, phrase_counts)
        smoothing = np.log(titles.lengths + self.mu)
        scores = np.zeros((len(queries), len(titles)))
        for query, score in enumerate(scores):
            # best[-1] is the log-likelihood of the query's words before `position`, best[-2] that
            # of the same words without the last one, and so on.
            best = [score]
            for position in range(*tokens.starts[query : query + 2]):
                current, word = best[-1].copy(), word_at[position]
                if word >= 0:  # a word that is left out has probability 1
                    current += gains[word].toarray()[0] + log_pseudo_counts[word] - smoothing
                for length in range(2, len(best) + 1):
                    phrase = phrases_at[length - 2, position]
                    if phrase >= 0:
                        gain = phrase_log_counts[phrase]
                        as_phrase = best[-length][gain.indices] + gain.data
                        as_phrase -= smoothing[gain.indices]
                        current[gain.indices] = np.maximum(current[gain.indices], as_phrase)
                best = [*best, current][-self.longest :]
            scores[query] = best[-1]
        return scores

    def _single_word_counts(
        self, words: Ids, titles: Tokens, phrase_counts: sparse.csr_matrix
    ) -> sparse.csr_matrix:
        """`|D|` times the unsmoothed mixed probabilities of single words, `(words, titles)`."""
        single = phrase_keys(words, np.arange(len(words)), 1, len(self.learned.terms))
        phrases = index_in(single, self.learned.query_phrases)
        by_words = (1 - self.phrase_fraction) * self._mixed_counts(words, titles)
        by_phrases = self.phrase_fraction * (
            self._bi_phrases_by_query_phrase[phrases] @ phrase_counts
        )
        return (by_words + by_phrases).tocsr()

    def _phrase_counts(self, titles: Tokens) -> sparse.csr_matrix:
        """`|D| P(w | D)` of the known title phrases: `(title phrases, titles)`."""
        indices, texts = [], []
        phrases = np.zeros(len(titles))
        for length in range(1, self.longest + 1):
            starts, index = _phrases(titles, length, self.learned.title_phrases)
            indices.append(index)
            texts.append(titles.text_indices[starts])
            phrases += np.maximum(titles.lengths - length + 1, 0)
        index, text = np.concatenate(indices), np.concatenate(texts)
        known = index >= 0
        rows = len(self.learned.title_phrases)
        counts = count_table(index[known], text[known], rows, len(titles))
        counts.data *= (titles.lengths / np.maximum(phrases, 1))[counts.indices]
        return counts

    def _phrase_log_counts(
        self, queries: Tokens, phrase_counts: sparse.csr_matrix
    ) -> tuple[Ids, sparse.csr_matrix]:
        """The known phrases of at least two words in the queries, and the logs of their counts.

        Returns:
            The row of the phrase of each length, from 2, that ends at each token of the queries,
            -1 for none, `(longest - 1, tokens)`; and `log(|D| phrase_fraction P_ph(q | D))` where
            it is finite, `(phrases, titles)`.
        """
        ends = np.full((self.longest - 1, len(queries.ids)), -1)
        for length in range(2, self.longest + 1):
            starts, index = _phrases(queries, length, self.learned.query_phrases)
            ends[length - 2, starts + length - 1] = index
        phrases = np.unique(ends[ends >= 0])
        gains = (self._bi_phrases_by_query_phrase[phrases] @ phrase_counts).tocsr()
        gains.data = np.log(self.phrase_fraction * gains.data)
        return index_in(ends, phrases), gains


def _phrases(texts: Tokens, length: int, known: Ids) -> tuple[Ids, Ids]:
    """The starts of phrases of `length` known words, and the index of each in `known`, or -1."""
    starts = np.arange(max(len(texts.ids) - length + 1, 0))
    inside = texts.text_indices[starts] == texts.text_indices[starts + length - 1]
    for offset in range(length):
        inside &= texts.ids[starts + offset] >= 0
    starts = starts[inside]
    return starts, index_in(phrase_keys(texts.ids, starts, length, texts.size), known)
