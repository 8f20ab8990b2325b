"""The scores of all titles for a query, from the definition, with few similar words per query word.

This is `dssm_tf.runtime.maxsim`'s formula in NumPy with a matrix of similarities, without any table
or query of the export. The cosine of text vectors is not included, as in the scores of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.maxsim import QUERY, TITLE, MaxSim
from dssm_tf.runtime.similar_words import SimilarWords

Array = NDArray[np.float64]


class ExpectedScores:
    """The scores of some titles.

    Args:
        model: the model.
        titles: raw texts.
        similar_words: number of similar catalog words of a query word.
    """

    def __init__(self, model: MaxSim, titles: Sequence[str], similar_words: int) -> None:
        self._model = model
        self._scores: dict[str, Array] = {}
        texts = [model.vocabulary.words(title) for title in titles]
        words = sorted({word for text in texts for word in text})
        self._rows = {word: row for row, word in enumerate(words)}
        self._similar = SimilarWords(model, words, similar_words)
        self._weights = np.append(model.words(words).weights[:, TITLE].astype(float), 0.0)
        longest = max(map(len, texts))
        # Titles are padded with an extra word of weight 0.
        self._titles = np.full((len(texts), longest), len(words))
        for number, text in enumerate(texts):
            distinct = list(dict.fromkeys(text))
            self._titles[number, : len(distinct)] = [self._rows[word] for word in distinct]
        self._pairs = [{*map(" ".join, pairwise(text))} for text in texts]
        self._totals = self._weights[self._titles].sum(axis=1) + [
            sum(self._pair_weight(pair, TITLE) for pair in pairs) for pairs in self._pairs
        ]

    def of_query(self, query: str) -> Array:
        """The scores of all titles without the prior, `(titles,)`, cached."""
        if query not in self._scores:
            self._scores[query] = self._compute(query)
        return self._scores[query]

    def _compute(self, query: str) -> Array:
        model, text = self._model, self._model.vocabulary.words(query)
        words = list(dict.fromkeys(text))
        if not words:
            return np.zeros(len(self._titles))
        weights = model.words(words).weights[:, QUERY].astype(float)
        similarities = np.zeros((len(words), len(self._weights)))
        for number, word in enumerate(words):
            rows, values = self._similar.of_word(word)
            similarities[number, rows] = values
        query_side = sum(
            weight * row[self._titles].max(axis=1)
            for weight, row in zip(weights, similarities, strict=True)
        )
        best = similarities.max(axis=0)
        title_side = (self._weights * best)[self._titles].sum(axis=1)
        total = weights.sum()
        for pair in {*map(" ".join, pairwise(text))}:
            if pair not in model.frequencies.pairs:
                continue
            present = np.array([pair in pairs for pairs in self._pairs])
            query_side += self._pair_weight(pair, QUERY) * present
            title_side += self._pair_weight(pair, TITLE) * present
            total += self._pair_weight(pair, QUERY)
        totals = np.where(self._totals > 0, self._totals, 1)
        of_query, of_title = model.side_weights
        return of_query * query_side / total + of_title * title_side / totals

    def _pair_weight(self, pair: str, side: int) -> float:
        """The weight of a pair; 0 if it is not kept."""
        known = pair in self._model.frequencies.pairs
        return float(self._model.pair_weights([pair])[0, side]) if known else 0.0
