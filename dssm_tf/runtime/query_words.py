"""The weight and the similar words of a word of a query, as a search engine export has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dssm_tf.runtime.maxsim import QUERY, MaxSim
from dssm_tf.runtime.similar_words import Rows
from dssm_tf.runtime.trained_ranker import Vectors


class QueryWord(NamedTuple):
    """A word of a query.

    Attributes:
        weight: its weight in queries, `a` of `dssm_tf.runtime.maxsim`.
        similar: the similarities of its similar words, by word.
    """

    weight: float
    similar: dict[str, float]


def query_word(
    model: MaxSim, catalog: Sequence[str], word: str, similar: tuple[Rows, Vectors]
) -> QueryWord:
    """The weight and the similar words of a query word.

    Args:
        model: the model.
        catalog: the words of the catalog, by row.
        word: the query word. It is similar to itself, also if it is not in the catalog: a title
            that was added later may have it.
        similar: rows and similarities of similar catalog words, see `SimilarWords.of_word`.
    """
    vectors, weights = model.words([word])
    same_word = {word: 1.0} if vectors.any() else {}
    others = {catalog[row]: float(similarity) for row, similarity in zip(*similar, strict=True)}
    return QueryWord(float(weights[0, QUERY]), same_word | others)
