"""The phrase translation model: a query's phrases as translations of a title's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from scipy import sparse

from dssm_tf.baselines.base import AboveZero, Floats, Grid, Share
from dssm_tf.baselines.bi_phrases import extract, phrase_keys
from dssm_tf.baselines.dirichlet import log_gains
from dssm_tf.baselines.tokens import Ids, Tokens, count_table, place_in
from dssm_tf.baselines.wtm import WTM
from dssm_tf.common.progress import progress_of


class PTM(WTM):
    """Scores titles by the word translation model and by the best way to translate phrases.

    With `P(q | w)` the relative frequency of a bi-phrase (see `bi_phrases.extract`) and `P(w | D)`
    the share that the phrase `w` has among the title's phrases of up to `longest` words,

        P_ph(q | D) = sum over phrases w of P(q | w) P(w | D)
        p(q | D) = (1 - s) ((1 - phrase_share) P_mx(q | D) + phrase_share P_ph(q | D))
                   + s P(q | C),  s = mu / (|D| + mu),

    with `P_mx` and `P(q | C)` as in `WTM` for a single word, 0 for a longer phrase, the phrase
    model gives the query

        log P_pt(Q | D) = max over segmentations of the query into phrases of up to `longest` words
            of the sum over its phrases q of log p(q | D)

    by dynamic programming, and the score is, as in the paper's linear ranking model,

        (1 - phrase_weight) (score of `WTM`) + phrase_weight log P_pt(Q | D)

    The paper takes one title phrase a query phrase, that of the pair's word alignment; the sum
    over title phrases needs no alignment of every query with every title, and is what the word
    model does. Words left out in `WTM` are left out here, and no phrase spans them.

    Args:
        mu: see `WTM`.
        self_weight: see `WTM`.
        phrase_weight: of the phrase model in the score, from 0 (as `wtm`) to 1.
        phrase_share: of phrases against single words inside the phrase model, above 0 and below
            1: a word must be reachable alone.
        longest: words of a phrase, from 1 to 3.
        iterations: see `WTM`; for each direction.
        empty_word: see `WTM`.

    Reference: Gao, He and Nie 2010, the phrase translation model.
    """

    name = "ptm"
    mu: Annotated[AboveZero, Grid((1.0, 3.0, 10.0))] = 3.0
    self_weight: Annotated[Share, Grid((0.1, 0.2, 0.4, 0.8, 1.0))] = 0.2
    phrase_weight: Annotated[Share, Grid((0.0, 0.1, 0.2, 0.4, 1.0))] = 0.1
    phrase_share: Annotated[float, Field(gt=0, lt=1), Grid((0.5, 0.8, 0.95))] = 0.8
    longest: Annotated[int, Field(ge=1, le=3)] = 3

    title_phrases: Ids
    query_phrases: Ids
    bi_phrases: sparse.csr_matrix

    def _learn_pairs(self, titles: Tokens, queries: Tokens, clicks: Floats) -> None:
        to_query = self._translate(titles, queries, clicks, f"{self.name}: title to query")
        to_title = self._translate(queries, titles, clicks, f"{self.name}: query to title")
        self.translations = to_query
        with progress_of(f"{self.name}: phrases", len(clicks), self.progress, "pairs") as task:
            self.title_phrases, self.query_phrases, self.bi_phrases = extract(
                queries, titles, clicks, to_query, to_title, self.longest, task.update
            )

    def _index(self) -> None:
        super()._index()
        # (query phrases, title phrases), and a row without entries that stands for no phrase: -1.
        nothing = sparse.csr_matrix((1, len(self.title_phrases)))
        self._phrase_origins = sparse.vstack([self.bi_phrases.T, nothing], format="csr")

    def _prepare(self, titles: tuple[str, ...]) -> tuple[Tokens, sparse.csr_matrix]:
        tokens = self.terms.tokens(titles)
        return tokens, self._phrase_shares(tokens)

    def _score(self, queries: Sequence[str], prepared: Any) -> Floats:
        scores = super()._score(queries, prepared[0])
        if self.phrase_weight > 0:
            scores *= 1 - self.phrase_weight
            scores += self.phrase_weight * self._phrase_scores(queries, *prepared)
        return scores

    def _phrase_scores(
        self, queries: Sequence[str], titles: Tokens, shares: sparse.csr_matrix
    ) -> Floats:
        """`log P_pt(Q | D)`, one step for each place in the longest query."""
        asked = self.terms.tokens(queries)
        words = np.unique(asked.ids[asked.ids >= 0])
        words = words[self._background[words] > 0]
        gains, floors = log_gains(
            self._all_counts(words, titles, shares), self.mu * self._background[words]
        )
        # The last row, -1, is that of the words that are left out: they count as certain.
        word_at = place_in(asked.ids, words)
        gains = sparse.vstack([gains, sparse.csr_matrix((1, len(titles)))], format="csr")
        floors, counted = np.append(floors, 0.0), np.append(np.ones(len(words)), 0.0)
        phrases_at, phrase_gains = self._phrase_gains(asked, shares)
        smoothing = np.log(titles.lengths + self.mu)

        scores = np.zeros((len(queries), len(titles)))
        rows = np.arange(len(queries))  # queries that are not at their end
        # best[-n]: log-likelihood of those queries but for their last n - 1 words so far.
        best = [scores]
        for end in range(1, int(asked.lengths.max(initial=0)) + 1):
            going_on = asked.lengths[rows] >= end
            rows, best = rows[going_on], [before[going_on] for before in best]
            last = asked.starts[rows] + end - 1
            word = word_at[last]
            current = best[-1] + gains[word].toarray() + floors[word][:, None]
            current -= np.outer(counted[word], smoothing)
            for length in range(2, min(self.longest, end) + 1):
                phrase = phrases_at[length - 2, last]
                has_phrase = np.flatnonzero(phrase >= 0)
                found = phrase_gains[phrase[has_phrase]]
                at = np.repeat(has_phrase, np.diff(found.indptr)), found.indices
                whole = best[-length][at] + found.data - smoothing[found.indices]
                current[at] = np.maximum(current[at], whole)
            scores[rows] = current
            best = [*best, current][-self.longest :]
        return scores

    def _all_counts(
        self, words: Ids, titles: Tokens, shares: sparse.csr_matrix
    ) -> sparse.csr_matrix:
        """`|D| p(q | D)` of single words before smoothing: `(words, titles)`."""
        single = phrase_keys(words, np.arange(len(words)), 1, len(self.terms))
        phrases = place_in(single, self.query_phrases)
        by_words = (1 - self.phrase_share) * self._mixed_counts(words, titles)
        by_phrases = self.phrase_share * (self._phrase_origins[phrases] @ shares)
        return (by_words + by_phrases).tocsr()

    def _phrase_shares(self, titles: Tokens) -> sparse.csr_matrix:
        """`|D| P(w | D)` of the known title phrases: `(title phrases, titles)`."""
        places, texts = [], []
        phrases = np.zeros(len(titles))
        for length in range(1, self.longest + 1):
            starts = _phrase_starts(titles, length)
            keys = phrase_keys(titles.ids, starts, length, titles.size)
            places.append(place_in(keys, self.title_phrases))
            texts.append(titles.text[starts])
            phrases += np.maximum(titles.lengths - length + 1, 0)
        place, text = np.concatenate(places), np.concatenate(texts)
        known = place >= 0
        height = len(self.title_phrases)
        shares = count_table(place[known], text[known], height, len(titles))
        shares.data *= (titles.lengths / np.maximum(phrases, 1))[shares.indices]
        return shares

    def _phrase_gains(
        self, asked: Tokens, shares: sparse.csr_matrix
    ) -> tuple[Ids, sparse.csr_matrix]:
        """Where the queries hold known phrases of two words or more, and what those are worth.

        Returns:
            For each further length and each token of the queries the phrase that ends there, -1
            for none, `(longest - 1, tokens)`; and `log(|D| phrase_share P_ph(q | D))` where it is
            above `log 0`, `(phrases, titles)`.
        """
        at = np.full((self.longest - 1, len(asked.ids)), -1)
        for length in range(2, self.longest + 1):
            starts = _phrase_starts(asked, length)
            keys = phrase_keys(asked.ids, starts, length, asked.size)
            at[length - 2, starts + length - 1] = place_in(keys, self.query_phrases)
        phrases = np.unique(at[at >= 0])
        gains = (self._phrase_origins[phrases] @ shares).tocsr()
        gains.data = np.log(self.phrase_share * gains.data)
        return place_in(at, phrases), gains


def _phrase_starts(texts: Tokens, length: int) -> Ids:
    """Where phrases of so many known words begin in texts."""
    starts = np.arange(max(len(texts.ids) - length + 1, 0))
    inside = texts.text[starts] == texts.text[starts + length - 1]
    for place in range(length):
        inside &= texts.ids[starts + place] >= 0
    return starts[inside]
