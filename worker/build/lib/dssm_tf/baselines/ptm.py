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
        self.title_phrases, self.query_phrases, self.bi_phrases = extract(
            queries, titles, clicks, to_query, to_title, self.longest
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
        """`log P_pt(Q | D)`, one step for each word of a query."""
        asked = self.terms.tokens(queries)
        words = np.unique(asked.ids[asked.ids >= 0])
        words = words[self._background[words] > 0]
        gains, floors = log_gains(
            self._all_counts(words, titles, shares), self.mu * self._background[words]
        )
        word_at = place_in(asked.ids, words)
        phrases_at, phrase_gains = self._phrase_gains(asked, shares)
        smoothing = np.log(titles.lengths + self.mu)
        scores = np.zeros((len(queries), len(titles)))
        for query, score in enumerate(scores):
            # best[-n]: log-likelihood of the query but for its last n - 1 words so far.
            best = [score]
            for place in range(*asked.starts[query : query + 2]):
                current, word = best[-1].copy(), word_at[place]
                if word >= 0:  # a word that is left out counts as certain
                    current += gains[word].toarray()[0] + floors[word] - smoothing
                for length in range(2, len(best) + 1):
                    phrase = phrases_at[length - 2, place]
                    if phrase >= 0:
                        found = phrase_gains[phrase]
                        whole = best[-length][found.indices] + found.data
                        whole -= smoothing[found.indices]
                        current[found.indices] = np.maximum(current[found.indices], whole)
                best = [*best, current][-self.longest :]
            scores[query] = best[-1]
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
            starts, place = _phrases(titles, length, self.title_phrases)
            places.append(place)
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
            starts, place = _phrases(asked, length, self.query_phrases)
            at[length - 2, starts + length - 1] = place
        phrases = np.unique(at[at >= 0])
        gains = (self._phrase_origins[phrases] @ shares).tocsr()
        gains.data = np.log(self.phrase_share * gains.data)
        return place_in(at, phrases), gains


def _phrases(texts: Tokens, length: int, known: Ids) -> tuple[Ids, Ids]:
    """Where phrases of so many known words begin in texts, and which phrase each is, or -1."""
    starts = np.arange(max(len(texts.ids) - length + 1, 0))
    inside = texts.text[starts] == texts.text[starts + length - 1]
    for place in range(length):
        inside &= texts.ids[starts + place] >= 0
    starts = starts[inside]
    return starts, place_in(phrase_keys(texts.ids, starts, length, texts.size), known)
