"""Explains any score by the Shapley values of the words of both texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.cells import ACTIVE_CELLS, Reading, cell_keywords, keywords
from dssm_tf.analysis.contributions import leave_one_out_losses, without_each, word_contributions
from dssm_tf.analysis.neurons import Link, links, winners
from dssm_tf.analysis.read_words import read_words
from dssm_tf.common.errors import UserError
from dssm_tf.common.rounding import rounded_parts
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.tables.cells import shown_text
from dssm_tf.text.fields import join_marked_words, without_marks
from dssm_tf.text.letter_ngrams import letter_ngrams

Array = NDArray[np.float64]

COSINE, SCORE = "cosine", "score"
# Two words have similar spelling if they share half of the shorter word's trigrams.
_SIMILAR_SPELLING = 0.5
_MIN_CONTRIBUTION = 0.1  # minimum fraction of the cosine for a sentence about a word
_MIN_INTERACTION = 0.5  # fraction of a word's contribution that is lost without the other word

# The values by tower that the explanation of a run has in addition to the words.
_INNER_VALUES = {
    "clsm": "neurons", "rnn": "cells", "lstm": "gates and cells", "bilstm": "gates and cells"
}  # fmt: skip


@dataclass(frozen=True)
class TextExplanation:
    """The explanation of one of the two texts.

    Attributes:
        name: `query` or `title`.
        words: the words as the model reads them, without the marks of their fields.
        contributions: Shapley value of each word for the cosine or score, `(words,)`.
        standard_errors: standard errors of the contributions, `(words,)`, if orders of the words
            were sampled; None if the values are exact.
        base_value: the cosine or score if this text has no words. Scores are relative to that of a
            title without words; see `explain_words`.
        losses: loss of cosine or score without each word, `(words,)`.
        readings: activations of a recurrent tower, one `Reading` per direction; empty for other
            towers.
        features: `h_t(i)` of a CLSM, `(words, neurons)`; None for other towers.
    """

    name: str
    words: list[str]
    contributions: Array
    standard_errors: Array | None
    base_value: float
    losses: Array
    readings: Sequence[Reading] = ()
    features: NDArray[np.float32] | None = None

    def columns(self) -> dict[str, list[Any]]:
        """Columns of a table of the words, by heading.

        Reference: Palangi et al. 2016, tables I, II and V-X; Shen et al. 2014, tables 3 and 8.
        """
        columns: dict[str, list[Any]] = {"adds": self.contributions.tolist()}
        if self.standard_errors is not None:
            columns["standard error"] = self.standard_errors.tolist()
        columns["lost without"] = self.losses.tolist()
        for reading in self.readings:
            order = "right to left" if reading.backwards else "left to right"
            active = min(ACTIVE_CELLS, reading.y.shape[1])
            columns[f"cells changed of {active}, {order}"] = reading.changed_cell_counts()
        if self.readings:
            columns["keyword"] = keywords(self.readings)
        if self.features is not None:
            wins = [winner.position for winner in winners(self.features)]
            columns["top neurons won"] = [wins.count(row) for row in range(len(self.words))]
        return columns

    def to_json(self) -> dict[str, Any]:
        """Plain data without the activations; one record per word."""
        columns = {"word": self.words, **self.columns()}
        rows = zip(*columns.values(), strict=True)
        words = [dict(zip(columns, row, strict=True)) for row in rows]
        data: dict[str, Any] = {"words": words, "base_value": self.base_value}
        return data | ({"cell_keywords": cell_keywords(self.readings)} if self.readings else {})


@dataclass(frozen=True)
class ShapleyExplanation:
    """Explains how a query and a title match by the Shapley values of their words.

    Attributes:
        name: name of the model.
        query: explanation of the query's words.
        title: explanation of the title's words.
        similarity: the score without the prior: the cosine of the two vectors, if the model has
            vectors.
        prior: weighted log-prior of the title.
        mean_prior: weighted log-prior of the average title.
        interactions: interaction of each query word with each title word,
            `(query words, title words)`; see `contributions.leave_one_out_losses`.
        notes: limits of the explanation, in sentences.
        measure: `COSINE`, or `SCORE` for a model without vectors.
        base_score: score of a title without words for the query; 0 for a model that gives one
            vector per text.
    """

    method: ClassVar[str] = (
        "Contributions are Shapley values. Those of long texts are estimates, with standard errors."
    )

    name: str
    query: TextExplanation
    title: TextExplanation
    similarity: float
    prior: float
    mean_prior: float
    interactions: Array
    notes: list[str]
    measure: str = COSINE
    base_score: float = 0.0

    @property
    def score(self) -> float:
        """The score by which titles are ranked: the similarity plus the prior."""
        return self.similarity + self.prior

    def score_breakdown(self) -> str:
        """The parts of the score as text, rounded so that they add up to the rounded score."""
        if self.measure == SCORE:
            score = f"Score {self.score:.3f}"
            if self.base_score:
                score += f", {self.score - self.base_score:+.3f} above a title without words"
            return score
        if not self._has_prior():
            return f"Score {self.score:.3f}: similarity {self.similarity:.3f} (the cosine)"
        exact = {"similarity": self.similarity, "prior": self.prior}
        similarity, prior = rounded_parts(exact, self.score, 3).values()
        return (
            f"Score {self.score:.3f}: similarity {similarity:.3f} (the cosine), prior {prior:+.3f}"
        )

    def sentences(self) -> list[str]:
        """One sentence per query word, by contribution; weak words share one sentence.

        Then follows the title's popularity, since a weighted log-prior is negative even for a
        best-seller. For a CLSM, the last sentence lists the neurons with high values in both texts.
        """
        lines = self._word_sentences()
        if self._has_prior():
            popularity = self.prior - self.mean_prior
            lines.append(
                f"Popularity {popularity:+.3f}: the prior minus that of the average clicked title."
            )
        return [*lines, *self._neuron_sentences()]

    def _has_prior(self) -> bool:
        """Whether the model adds a prior to its scores."""
        return self.mean_prior != 0 or self.prior != 0

    def _word_sentences(self) -> list[str]:
        # The score of a text without words is not due to the words. A log-likelihood is negative
        # even for an exact match, but higher than that of a title without words.
        total = self.similarity
        if self.measure == SCORE:
            total -= self.base_score + self.query.base_value
        if total <= 0 and set(self.query.words).isdisjoint(self.title.words):
            return ["The model finds nothing in common between the two texts."]
        contributions = self.query.contributions
        lines, weak = [], []
        for position in np.argsort(-contributions, kind="stable"):
            if abs(contributions[position]) < _MIN_CONTRIBUTION * abs(total):
                weak.append(position)
            else:
                lines.append(f"{self._describe_match(position)} ({contributions[position]:+.3f}).")
        if weak:
            names = ", ".join(f"'{self.query.words[position]}'" for position in weak)
            lines.append(f"Of little weight: {names} ({contributions[weak].sum():+.3f}).")
        return lines

    def _describe_match(self, position: int) -> str:
        """Says how a word of the query matches the title."""
        word, contribution = self.query.words[position], self.query.contributions[position]
        if word in self.title.words:
            effect = " but lowers the score" if contribution < 0 else ""
            return f"'{word}' is in the title{effect}"
        if contribution < 0:
            return f"'{word}' lowers the score"
        if similar := self.similar_spelling(position):
            title_word, shared = similar
            return f"'{word}' matches '{title_word}' by shared letters, {' '.join(shared)}"
        partner = int(self.interactions[position].argmax())
        if self.interactions[position, partner] >= _MIN_INTERACTION * contribution:
            return f"'{word}' goes with '{self.title.words[partner]}', as learned in training"
        return f"'{word}' goes with the title as a whole, as learned in training"

    def similar_spelling(self, position: int) -> tuple[str, list[str]] | None:
        """The first title word that shares half of its trigrams with a query word.

        Returns:
            The word and the shared trigrams. None if there is no such word, or if the query word
            itself is in the title.
        """
        word = self.query.words[position]
        if word in self.title.words:
            return None
        trigrams = Counter(letter_ngrams(word))
        for title_word in dict.fromkeys(self.title.words):
            title_trigrams = Counter(letter_ngrams(title_word))
            shared = trigrams & title_trigrams
            shorter = min(trigrams.total(), title_trigrams.total())
            if shared.total() >= _SIMILAR_SPELLING * shorter:
                return title_word, list(shared)
        return None

    def _neuron_sentences(self) -> list[str]:
        neurons = [
            f"{link.neuron} ({self.query.words[link.query]}, {self.title.words[link.title]})"
            for link in self.links()
        ]
        return [f"Neurons with high values in both texts: {'; '.join(neurons)}."] if neurons else []

    def links(self) -> list[Link]:
        """The neurons of a CLSM with high values in both texts; empty for other models."""
        query, title = self.query.features, self.title.features
        return [] if query is None or title is None else links(query, title)

    def to_json(self) -> dict[str, Any]:
        """Plain data without the activations."""
        plain = (
            "name", "score", "measure", "similarity", "base_score", "prior", "mean_prior", "notes"
        )  # fmt: skip
        return {name: getattr(self, name) for name in plain} | {
            "query": self.query.to_json(),
            "title": self.title.to_json(),
            "interactions": self.interactions.tolist(),
            "neurons": [link._asdict() for link in self.links()],
            "sentences": self.sentences(),
        }


def explain_words(ranker: Any, query: str, title: str) -> ShapleyExplanation:
    """Explains the score of a query and a title by Shapley values, for any model.

    Each word gets its Shapley value among the words of its text, while the other text stays
    complete. The values explain the cosine if the model has vectors. Otherwise they explain the
    score minus that of a title without words. If the score is a log-likelihood, which falls with
    every word of the query, this difference is the logarithm of a likelihood ratio.

    In texts of more than `contributions.MAX_EXACT_WORDS` words, the values are estimated from
    samples. For a run, the activations of its layers are included.

    Args:
        ranker: a `VectorRanker`, or anything else that scores titles.
        query: raw text.
        title: raw text.

    Raises:
        UserError: a text has no word, or no letter n-gram of a text is in the vocabulary.
    """
    texts = {"query": query, "title": title}
    vector_ranker = ranker if isinstance(ranker, VectorRanker) else None
    vocabulary = None if vector_ranker is None else vector_ranker.vocabulary
    words: dict[str, list[str]] = {}
    notes: list[str] = []
    for side, text in texts.items():
        words[side], side_notes = read_words(side, text, vocabulary)
        notes += side_notes
        if vocabulary is not None and not any(map(vocabulary.ngram_ids, words[side])):
            raise UserError(
                f"the vocabulary has no letter n-gram of the {side} {shown_text(text)!r}: the "
                "training log had no similar word, so its similarity to every text is 0."
            )

    def values(queries: Sequence[str], titles: Sequence[str]) -> Array:
        """Cosines or scores, `(queries, titles)`."""
        if vector_ranker is None:
            scores = np.asarray(ranker.score_matrix(queries, (*titles, "")), np.float64)
            return scores[:, :-1] - _finite(scores[:, -1:])
        query_vectors = vector_ranker.encode_queries([*map(_text_of, queries)])
        title_vectors = vector_ranker.encode_titles([*map(_text_of, titles)])
        return query_vectors.astype(np.float64) @ title_vectors.astype(np.float64).T

    base_score = 0.0
    if vector_ranker is None:
        base_scores = np.asarray(ranker.score_matrix([" ".join(words["query"])], ("",)), np.float64)
        base_score = float(_finite(base_scores)[0, 0])
    shortened = {side: [" ".join(words[side]), *without_each(words[side])] for side in texts}
    table = values(shortened["query"], shortened["title"])
    *losses, interactions = leave_one_out_losses(table)
    # The value of a changed query or title with the other text complete.
    value_functions: Sequence[Callable[[Sequence[str]], Array]] = (
        lambda queries: values(queries, [" ".join(words["title"])])[:, 0],
        lambda titles: values([" ".join(words["query"])], titles)[0],
    )
    explanations = []
    for name, value, word_losses in zip(texts, value_functions, losses, strict=True):
        contributions, errors = word_contributions(value, words[name])
        activations: Sequence[Any] = ()
        if hasattr(ranker, "model"):
            from dssm_tf.analysis.activations import tower_activations  # loads TensorFlow

            activations = tower_activations(ranker, name, words[name])
        base_value = float(value([""])[0])
        explanations.append(
            TextExplanation(
                name,
                [*map(without_marks, words[name])],
                contributions,
                errors,
                base_value,
                word_losses,
                *activations,
            )
        )
    prior = mean_prior = 0.0
    if vector_ranker is not None:
        prior, mean_prior = (
            float(vector_ranker.weighted_prior([title])[0]),
            vector_ranker.mean_prior,
        )
        if not hasattr(ranker, "model") and vector_ranker.tower_name in _INNER_VALUES:
            inner_values = _INNER_VALUES[vector_ranker.tower_name]
            notes.append(
                f"An export does not contain its layers. To see its {inner_values}, explain the "
                "run that it was exported from."
            )
    return ShapleyExplanation(
        ranker.name, explanations[0], explanations[1], base_score + float(table[0, 0]), prior,
        mean_prior, interactions, notes, SCORE if vector_ranker is None else COSINE, base_score,
    )  # fmt: skip


def _text_of(words: str) -> str:
    """A text for the model, of words that may have the marks of their fields."""
    return join_marked_words(words.split())


def _finite(scores: Array) -> Array:
    """Replaces scores that are not finite by 0."""
    return np.where(np.isfinite(scores), scores, 0.0)
