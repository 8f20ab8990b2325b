"""Why a title matches a query: what each word and trigram of both adds to their cosine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading, keywords, shared_cells
from dssm_tf.analysis.contributions import (
    MOST_WORDS,
    occlusion,
    without_each,
    word_contributions,
)
from dssm_tf.analysis.gradients import integrated_gradients
from dssm_tf.analysis.neurons import Link, links, winners
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.text_features import TextBatch
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower

Array = NDArray[np.float64]

COSINE, SCORE = "cosine", "score"
SHAPLEY = "Shapley values"
DRAWN = "Shapley values over orders drawn by lot"
GRADIENTS = "integrated gradients"
# Two words are alike by their letters if they share half of the shorter one's trigrams.
_ALIKE = 0.5
_WORTH_A_SENTENCE = 0.1  # of the cosine
_CANCEL = 2.0  # times the cosine


@dataclass(frozen=True)
class Side:
    """One of the two texts.

    Attributes:
        name: `query` or `title`.
        words: as the model reads them.
        vector: unit semantic vector `(dimension,)`; None where it is not told.
        contributions: what each word adds to the cosine, `(words,)`.
        method: by which they were found, `SHAPLEY`, `DRAWN` or `GRADIENTS`.
        start: the cosine without what the words add: 0 for Shapley values of a cosine.
        gap: what the contributions and `start` miss of the cosine.
        lost: what the cosine loses without each word, `(words,)`.
        trigrams: what each letter trigram of each word adds, by integrated gradients; empty where
            it was not asked, or only the answers of a model are known.
        readings: of a recurrent tower, one a direction.
        features: of a CLSM, `h_t(i)`, `(words, neurons)`.
        spread: the largest standard error of a contribution, 0 where nothing was drawn by lot.
    """

    name: str
    words: list[str]
    vector: Array | None
    contributions: Array
    method: str
    start: float
    gap: float
    lost: Array
    trigrams: list[list[tuple[str, float]]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    features: NDArray[np.float32] | None = None
    spread: float = 0.0


@dataclass(frozen=True)
class Explanation:
    """A query and a title, and what matches between them.

    Attributes:
        model: its name.
        query: the query's side.
        title: the title's side.
        cosine: of their vectors.
        prior: what the title's clicks add to the score.
        pairs: what each two words are worth beside each other, `(query words, title words)`; see
            `contributions.occlusion`.
        notes: what a reader must know, in sentences.
        measure: what the words add to: `COSINE`, or of a model without vectors `SCORE`, for which
            the word cosine stands here.
    """

    model: str
    query: Side
    title: Side
    cosine: float
    prior: float
    pairs: Array
    notes: list[str]
    measure: str = COSINE

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
            share = f"{100 * shares[others].sum():.0f} %"
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
        if self.pairs[place, partner] >= adds / 2:
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
        if self.query.features is None or self.title.features is None:
            return []
        return links(self.query.features, self.title.features)

    def cells(self) -> list[tuple[int, float]]:
        """The entries of the vectors that add most to the cosine, and what they add."""
        if self.query.vector is None or self.title.vector is None:
            return []
        return shared_cells(self.query.vector, self.title.vector)

    def to_json(self) -> dict[str, Any]:
        """All of it but whole activations, as plain data."""
        return {
            "model": self.model,
            "score": self.score,
            "measure": self.measure,
            "cosine": self.cosine,
            "prior": self.prior,
            "query": _side_json(self.query),
            "title": _side_json(self.title),
            "pairs": self.pairs.tolist(),
            "cells": [{"cell": cell, "adds": adds} for cell, adds in self.cells()],
            "neurons": [link._asdict() for link in self.links()],
            "sentences": self.sentences(),
            "notes": self.notes,
        }


def explain(ranker: SemanticRanker, query: str, title: str, *, letters: bool = True) -> Explanation:
    """Takes a score of a trained model apart.

    Each side's words are given what they add to the cosine while the other side stays whole, so
    each side's contributions sum to the cosine. They are Shapley values; of a text of more than
    `MOST_WORDS` words, integrated gradients.

    Args:
        ranker: the model.
        query: raw text.
        title: raw text.
        letters: whether to say what trigrams add, which takes most of the time.

    Raises:
        UserError: a text holds no word, or none of which the model knows a trigram.
    """
    read = {"query": query, "title": title}
    words = {side: read_words(side, text, ranker.vocabulary) for side, text in read.items()}
    encode = {"query": ranker.encode_queries, "title": ranker.encode_titles}
    # The text, and the text without each of its words.
    vectors = {
        side: np.asarray(encode[side]([" ".join(found), *without_each(found)]), np.float64)
        for side, found in words.items()
    }
    lost_query, lost_title, pairs = occlusion(vectors["query"], vectors["title"])
    sides = []
    for side, lost in (("query", lost_query), ("title", lost_title)):
        found, vector = words[side], vectors[side][0]
        other = vectors["title" if side == "query" else "query"][0]
        tower = _tower(ranker.model, side)
        few = len(found) <= MOST_WORDS
        path = None
        if letters or not few:
            path = integrated_gradients(tower, ranker.vocabulary, found, other)
        if path is None or few:
            contributions, start, gap = word_contributions(encode[side], found, other), 0.0, 0.0
        else:
            contributions, start, gap = path.words, path.start, path.gap
        trigrams = [] if path is None else [
            [(ngram, float(adds)) for ngram, adds in zip(known, added, strict=True)]
            for known, added in zip(
                (_known(word, ranker.vocabulary) for word in found), path.trigrams, strict=True
            )
        ]  # fmt: skip
        batch = ranker.features(tf.constant([" ".join(found).encode()]))
        sides.append(
            Side(
                side, found, vector, contributions, SHAPLEY if few else GRADIENTS,
                start, gap, lost, trigrams,
                _readings(tower, found, batch),
                tower.activations(batch)[0].numpy() if isinstance(tower, CLSM) else None,
            )
        )  # fmt: skip
    cosine = float(vectors["query"][0] @ vectors["title"][0])
    prior = float(ranker.prior_weight * ranker.prior([title])[0])
    notes = [note for side, text in read.items() for note in unread(side, text, ranker.vocabulary)]
    return Explanation(ranker.name, sides[0], sides[1], cosine, prior, pairs, notes)


def read_words(side: str, text: str, vocabulary: Vocabulary) -> list[str]:
    """The words of a text that a model reads.

    Raises:
        UserError: there is none, or none of which it knows a trigram.
    """
    found = vocabulary.words(text)
    if not found:
        raise UserError(f"the {side} {text!r} holds no word, so there is nothing to explain.")
    if not any(vocabulary.ngram_ids(word) for word in found):
        raise UserError(
            f"the model knows no letter trigram of the {side} {text!r}: its log held nothing like "
            "it, and the score says nothing."
        )
    return found


def unread(side: str, text: str, vocabulary: Vocabulary) -> list[str]:
    """What of a text the model does not see, in sentences."""
    found, notes = vocabulary.words(text), []
    everything = vocabulary.split(text)
    if cut := len(everything) - len(found):
        notes.append(
            f"The model reads the first {len(found)} words of the {side}; {cut} more were cut."
        )
    whole = everything[: len(found)]
    if short := [f"'{word}'" for word, own in zip(found, whole, strict=True) if word != own]:
        notes.append(
            f"The model reads the first {vocabulary.limits.max_letters} letters of a word; of "
            f"{', '.join(dict.fromkeys(short))} in the {side} the rest was cut."
        )
    if unknown := [word for word in found if not vocabulary.ngram_ids(word)]:
        names = ", ".join(f"'{word}'" for word in dict.fromkeys(unknown))
        notes.append(f"The model knows no letter trigram of {names} in the {side}.")
    return notes


def _tower(model: Siamese, side: str) -> Tower:
    return model.query_tower if side == "query" else model.title_tower


def _known(word: str, vocabulary: Vocabulary) -> list[str]:
    """The trigrams behind `Vocabulary.ngram_ids`."""
    if vocabulary.limits.hash_buckets:  # every trigram has an id
        return letter_ngrams(word, vocabulary.limits.max_letters)
    return [vocabulary.ngrams[number - 1] for number in vocabulary.ngram_ids(word)]


def _readings(tower: Tower, words: list[str], batch: TextBatch) -> list[Reading]:
    """How a recurrent tower read a text, one a direction."""
    if not isinstance(tower, RecurrentTower):
        return []
    return [
        Reading(
            words,
            tower.directions[direction],
            {name: values[0].numpy() for name, values in found.items()},
        )
        for direction, found in tower.activations(batch).items()
    ]


def _side_json(side: Side) -> dict[str, Any]:
    counts = [reading.moved() for reading in side.readings]
    key = keywords(side.readings) if side.readings else []
    won = Counter(place for _, place in winners(side.features)) if side.features is not None else {}
    words = []
    for place, word in enumerate(side.words):
        about = {
            "word": word,
            "adds": float(side.contributions[place]),
            "lost_without": float(side.lost[place]),
            "trigrams": [list(one) for one in side.trigrams[place]] if side.trigrams else [],
        }
        if key:
            about |= {"cells_moved": [of[place] for of in counts], "keyword": key[place]}
        if side.features is not None:
            about["neurons_won"] = won.get(place, 0)
        words.append(about)
    return {"words": words, "method": side.method, "start": side.start, "gap": side.gap}
