"""Why a title matches a query, of a model of which only the answers are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.contributions import (
    MOST_WORDS,
    drawn_contributions,
    losses,
    shapley,
    subsets,
    without_each,
)
from dssm_tf.analysis.explanation import (
    COSINE,
    DRAWN,
    SCORE,
    SHAPLEY,
    Explanation,
    Side,
    read_words,
    unread,
)
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.text.normalize import words as all_words
from dssm_tf.text.vocabulary import Vocabulary

Array = NDArray[np.float64]
Worth = Callable[[Sequence[str], Sequence[str]], Array]
"""Queries and titles to what each pair is worth, `(queries, titles)`."""

_NO_INSIDE = (
    "Of an export only the answers are known: trigrams, gates and neurons are explained from the "
    "run that it was made of."
)


@runtime_checkable
class Encodes(Protocol):
    """A model that tells vectors, but nothing of how it found them, such as an export."""

    name: str

    @property
    def vocabulary(self) -> Vocabulary: ...  # noqa: D102

    def encode_queries(self, queries: Sequence[str]) -> Any: ...  # noqa: D102

    def encode_titles(self, titles: Sequence[str]) -> Any: ...  # noqa: D102

    def weighted_prior(self, titles: Sequence[str]) -> Any: ...  # noqa: D102


def explain_answers(ranker: Ranker, query: str, title: str) -> Explanation:
    """Takes a score apart by asking for the scores of shorter texts.

    The words of either side are given their Shapley values while the other side stays whole: of
    the cosine where the model tells vectors, else of the score. Of a text of more than
    `MOST_WORDS` words they are found over orders drawn by lot.

    Args:
        ranker: an exported model, or anything else that scores titles.
        query: raw text.
        title: raw text.

    Raises:
        UserError: a text holds no word; or none of which the model knows a trigram, where it says
            which it knows.
    """
    read = {"query": query, "title": title}
    if isinstance(ranker, Encodes):
        words = {side: read_words(side, text, ranker.vocabulary) for side, text in read.items()}
        notes = [
            note for side, text in read.items() for note in unread(side, text, ranker.vocabulary)
        ]
        prior = float(ranker.weighted_prior([title])[0])
        return _explained(ranker.name, words, _cosines(ranker), COSINE, [*notes, _NO_INSIDE], prior)
    keep = getattr(ranker, "keep_accents", False)
    words = {side: all_words(text, keep) for side, text in read.items()}
    for side, text in read.items():
        if not words[side]:
            raise UserError(f"the {side} {text!r} holds no word, so there is nothing to explain.")

    def scores(queries: Sequence[str], titles: Sequence[str]) -> Array:
        return np.asarray(ranker.score_matrix(queries, tuple(titles)), np.float64)

    return _explained(ranker.name, words, scores, SCORE, [], 0.0)


def _cosines(model: Encodes) -> Worth:
    """Cosines from a model's vectors."""

    def cosines(queries: Sequence[str], titles: Sequence[str]) -> Array:
        vectors = (model.encode_queries(queries), model.encode_titles(titles))
        rows, columns = (np.asarray(one, np.float64) for one in vectors)
        found: Array = rows @ columns.T
        return found

    return cosines


def _explained(
    name: str,
    words: dict[str, list[str]],
    worth: Worth,
    measure: str,
    notes: list[str],
    prior: float,
) -> Explanation:
    whole = {side: " ".join(found) for side, found in words.items()}
    table = worth(
        [whole["query"], *without_each(words["query"])],
        [whole["title"], *without_each(words["title"])],
    )
    lost_query, lost_title, pairs = losses(table)
    of_side: dict[str, Callable[[Sequence[str]], Array]] = {
        "query": lambda texts: worth(texts, [whole["title"]])[:, 0],
        "title": lambda texts: worth([whole["query"]], texts)[0],
    }
    sides = []
    for side, lost in (("query", lost_query), ("title", lost_title)):
        value, found = of_side[side], words[side]
        start, spread = float(value([""])[0]), 0.0
        if few := len(found) <= MOST_WORDS:
            adds = shapley(value(subsets(found)).reshape((2,) * len(found)))
        else:
            adds, spread = drawn_contributions(value, found)
        method = SHAPLEY if few else DRAWN
        sides.append(Side(side, found, None, adds, method, start, 0.0, lost, spread=spread))
    return Explanation(name, sides[0], sides[1], float(table[0, 0]), prior, pairs, notes, measure)
