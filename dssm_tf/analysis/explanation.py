"""Why a title matches a query: what each word of both adds to their score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.cells import cell_keywords, keywords, shared_cells
from dssm_tf.analysis.contributions import losses, without_each, word_contributions
from dssm_tf.analysis.neurons import Link, links, winners
from dssm_tf.analysis.score_parts import ScoreParts
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from dssm_tf.analysis.inside import Inside

Array = NDArray[np.float64]
Worth = Callable[[Sequence[str], Sequence[str]], Array]
"""Queries and titles to what each pair is worth, `(queries, titles)`."""

COSINE, SCORE = "cosine", "score"
# Two words are alike by their letters if they share half of the shorter one's trigrams.
_ALIKE = 0.5
_WORTH_A_SENTENCE = 0.1  # of the cosine
_GOES_WITH = 0.5  # of what a word adds, lost without the other word
_CANCEL = 2.0  # times the cosine


@runtime_checkable
class Encodes(Protocol):
    """A model with vectors: a run, an export or a compact model."""

    name: str

    @property
    def vocabulary(self) -> Vocabulary: ...  # noqa: D102

    @property
    def mean_prior(self) -> float: ...  # noqa: D102

    def encode_queries(self, queries: Sequence[str]) -> Any: ...  # noqa: D102

    def encode_titles(self, titles: Sequence[str]) -> Any: ...  # noqa: D102

    def weighted_prior(self, titles: Sequence[str]) -> Any: ...  # noqa: D102


@runtime_checkable
class Run(Encodes, Protocol):
    """A model whose layers are there to be read."""

    model: Any


@dataclass(frozen=True)
class Side:
    """One of the two texts.

    Attributes:
        name: `query` or `title`.
        words: as the model reads them.
        contributions: what each word adds to the cosine or score, `(words,)`: its Shapley value.
        standard_errors: of the contributions `(words,)`, where orders of the words were sampled;
            None where the values are exact.
        start: what the pair is worth with none of the side's words.
        lost: what the pair loses without each word, `(words,)`.
        inside: how the tower read the text; None unless the model is a run.
    """

    name: str
    words: list[str]
    contributions: Array
    standard_errors: Array | None
    start: float
    lost: Array
    inside: Inside | None = None


@dataclass(frozen=True)
class Explanation:
    """A query and a title, and what matches between them.

    Attributes:
        model: its name.
        query: the query's side.
        title: the title's side.
        cosine: of their vectors.
        prior: the title's weighted log-prior.
        mean_prior: that of the average title.
        pairs: what each two words are worth together, `(query words, title words)`; see
            `contributions.losses`.
        notes: what a reader must know, in sentences.
        measure: what the words add to: `COSINE`, or `SCORE` for a model without vectors, whose
            score is then in `cosine`.
    """

    model: str
    query: Side
    title: Side
    cosine: float
    prior: float
    mean_prior: float
    pairs: Array
    notes: list[str]
    measure: str = COSINE

    @property
    def parts(self) -> ScoreParts:
        """What titles are ranked by, in parts."""
        return ScoreParts.of(self.cosine, self.prior, self.mean_prior)

    @property
    def score(self) -> float:
        """What titles are ranked by."""
        return self.cosine + self.prior

    def sentences(self) -> list[str]:
        """The match in words, the query's strongest words first."""
        # Where a text without words is worth something, the words share the rest.
        whole = self.cosine - (self.query.start if self.measure == SCORE else 0.0)
        if whole <= 0:
            return ["The model sees nothing in common between the two texts."]
        shares = self.query.contributions / whole
        # Of next to nothing, shares say little: then words that add and take cancel out.
        cancel = np.abs(shares).max() > _CANCEL
        found, others = [], []
        for place in np.argsort(-shares, kind="stable"):
            if abs(shares[place]) < _WORTH_A_SENTENCE:
                others.append(place)
            else:
                share = f"{100 * shares[place]:.0f} % of the {self.measure}"
                if cancel:
                    adds = self.query.contributions[place]
                    share = f"{adds:+.3f} of the {self.measure}'s {self.cosine:.3f}"
                found.append(f"{self._matched(place)} ({share}).")
        if others:
            names = ", ".join(f"'{self.query.words[place]}'" for place in others)
            share = f"{round(100 * shares[others].sum())} %"
            if cancel:
                share = f"{self.query.contributions[others].sum():+.3f}"
            found.append(f"Of little weight: {names} ({share}).")
        return found

    def _matched(self, place: int) -> str:
        """How a word of the query goes with the title."""
        word, adds = self.query.words[place], self.query.contributions[place]
        if adds < 0:
            return f"'{word}' speaks against it"
        if word in self.title.words:
            return f"'{word}' stands in the title"
        if alike := self.alike(place):
            other, shared = alike
            return f"'{word}' matches '{other}' by shared letters, {' '.join(shared)}"
        partner = int(self.pairs[place].argmax())
        if self.pairs[place, partner] >= _GOES_WITH * adds:
            return f"'{word}' goes with '{self.title.words[partner]}', by what was clicked"
        return f"'{word}' goes with the title as a whole, by what was clicked"

    def alike(self, place: int) -> tuple[str, list[str]] | None:
        """The title's first word that shares half of its trigrams with a word of the query.

        Returns:
            The word and the shared trigrams; None where there is none, or it is the same word.
        """
        word = self.query.words[place]
        if word in self.title.words:
            return None
        mine = Counter(letter_ngrams(word))
        for other in dict.fromkeys(self.title.words):
            theirs = Counter(letter_ngrams(other))
            shared = mine & theirs
            if shared.total() >= _ALIKE * min(mine.total(), theirs.total()):
                return other, list(shared)
        return None

    def links(self) -> list[Link]:
        """The neurons of a CLSM that are high on both sides; none for other models."""
        query, title = self.query.inside, self.title.inside
        if query is None or title is None or query.features is None or title.features is None:
            return []
        return links(query.features, title.features)

    def cells(self) -> list[tuple[int, float]]:
        """The entries of the vectors that add most to the cosine, and what they add."""
        if self.query.inside is None or self.title.inside is None:
            return []
        return shared_cells(self.query.inside.vector, self.title.inside.vector)

    def to_json(self) -> dict[str, Any]:
        """All of it but whole activations, as plain data."""
        return {
            "model": self.model,
            "score": self.score,
            "measure": self.measure,
            "cosine": self.cosine,
            "prior": self.prior,
            "mean_prior": self.mean_prior,
            "query": _side_json(self.query),
            "title": _side_json(self.title),
            "pairs": self.pairs.tolist(),
            "cells": [{"cell": cell, "adds": adds} for cell, adds in self.cells()],
            "neurons": [link._asdict() for link in self.links()],
            "sentences": self.sentences(),
            "notes": self.notes,
        }


def explain(
    ranker: Ranker | Encodes, query: str, title: str, *, trigrams: bool = True
) -> Explanation:
    """Takes the score of a query and a title apart, for any model.

    The words of either side get their Shapley values while the other side stays whole: of the
    cosine if the model has vectors, else of the score. Values of texts of more than
    `contributions.MOST_WORDS` words are sampled. Of a run, its layers are read too.

    Args:
        ranker: a run, an export, a compact model or anything else that scores titles.
        query: raw text.
        title: raw text.
        trigrams: whether to say what each letter trigram is worth, for a run.

    Raises:
        UserError: a text has no word; or the model has a vocabulary with none of its trigrams.
    """
    texts = {"query": query, "title": title}
    notes: list[str] = []
    prior = mean_prior = 0.0
    if isinstance(ranker, Encodes):
        vocabulary, measure, worth = ranker.vocabulary, COSINE, _cosines(ranker)
        words = {side: _read(side, text, vocabulary) for side, text in texts.items()}
        notes += [note for side, text in texts.items() for note in _unread(side, text, vocabulary)]
        prior, mean_prior = float(ranker.weighted_prior([title])[0]), ranker.mean_prior
    else:
        measure, worth = SCORE, _scores(ranker)
        words = {side: _not_empty(side, text, FOLDED.words(text)) for side, text in texts.items()}
    whole = {side: " ".join(of_side) for side, of_side in words.items()}
    table = worth(*([whole[side], *without_each(words[side])] for side in texts))
    *lost, pairs = losses(table)
    values: tuple[Callable[[Sequence[str]], Array], ...] = (
        lambda part: worth(part, [whole["title"]])[:, 0],
        lambda part: worth([whole["query"]], part)[0],
    )
    inside: list[Inside | None] = [None, None]
    if isinstance(ranker, Run):
        inside = _inside(ranker, words, trigrams)
    elif isinstance(ranker, Encodes):
        notes.append(
            "An export does not show its layers: explain the run that it was made of to see "
            "trigrams, gates and neurons."
        )
    query_side, title_side = (
        Side(
            side, words[side], *word_contributions(value, words[side]), float(value([""])[0]),
            of_side, read,
        )
        for side, value, of_side, read in zip(texts, values, lost, inside, strict=True)
    )  # fmt: skip
    cosine = float(table[0, 0])
    return Explanation(
        ranker.name, query_side, title_side, cosine, prior, mean_prior, pairs, notes, measure
    )


def _cosines(model: Encodes) -> Worth:
    def cosines(queries: Sequence[str], titles: Sequence[str]) -> Array:
        vectors = (model.encode_queries(queries), model.encode_titles(titles))
        rows, columns = (np.asarray(one, np.float64) for one in vectors)
        found: Array = rows @ columns.T
        return found

    return cosines


def _scores(ranker: Ranker) -> Worth:
    return lambda queries, titles: np.asarray(
        ranker.score_matrix(queries, tuple(titles)), np.float64
    )


def _inside(ranker: Any, words: dict[str, list[str]], trigrams: bool) -> list[Inside | None]:
    from dssm_tf.analysis.inside import look_inside  # loads TensorFlow

    query, title = words["query"], words["title"]
    return [
        look_inside(ranker, "query", query, " ".join(title), trigrams),
        look_inside(ranker, "title", title, " ".join(query), trigrams),
    ]


def _not_empty(side: str, text: str, words: list[str]) -> list[str]:
    if not words:
        raise UserError(f"the {side} {text!r} has no word, so there is nothing to explain.")
    return words


def _read(side: str, text: str, vocabulary: Vocabulary) -> list[str]:
    """The words of a text that a model reads, of which it knows a trigram."""
    found = _not_empty(side, text, vocabulary.words(text))
    if not any(vocabulary.ngram_ids(word) for word in found):
        raise UserError(
            f"the model knows no letter trigram of the {side} {text!r}: its log has nothing like "
            "it, and the score means nothing."
        )
    return found


def _unread(side: str, text: str, vocabulary: Vocabulary) -> list[str]:
    """What of a text the model does not see, in sentences."""
    found, notes = vocabulary.words(text), []
    everything = vocabulary.rules.words(text)
    if cut := len(everything) - len(found):
        notes.append(
            f"The model reads the first {len(found)} words of the {side}; {cut} more were cut."
        )
    whole = everything[: len(found)]
    if short := [f"'{word}'" for word, own in zip(found, whole, strict=True) if word != own]:
        notes.append(
            f"The model reads the first {vocabulary.rules.max_letters} letters of a word; of "
            f"{', '.join(dict.fromkeys(short))} in the {side} the rest was cut."
        )
    if unknown := [word for word in found if not vocabulary.ngram_ids(word)]:
        names = ", ".join(f"'{word}'" for word in dict.fromkeys(unknown))
        notes.append(f"The model knows no letter trigram of {names} in the {side}.")
    return notes


def _side_json(side: Side) -> dict[str, Any]:
    inside, errors = side.inside, side.standard_errors
    words: list[dict[str, Any]] = [
        {"word": word, "adds": float(adds), "lost_without": float(lost)}
        for word, adds, lost in zip(side.words, side.contributions, side.lost, strict=True)
    ]
    found: dict[str, Any] = {"words": words, "start": side.start}
    if errors is not None:
        for word, error in zip(words, errors.tolist(), strict=True):
            word["standard_error"] = error
    if inside is None:
        return found
    for word, trigrams in zip(words, inside.trigrams, strict=False):
        word["trigrams"] = [list(one) for one in trigrams]
    if inside.readings:
        counts = zip(*(reading.moved() for reading in inside.readings), strict=True)
        for word, of_word, key in zip(words, counts, keywords(inside.readings), strict=True):
            word |= {"cells_moved": list(of_word), "keyword": key}
        found["cell_keywords"] = cell_keywords(inside.readings)
    if inside.features is not None:
        won = Counter(place for _, place in winners(inside.features))
        for place, word in enumerate(words):
            word["neurons_won"] = won[place]
    return found
