"""The parts of a maxsim score: the matching words and pairs of a query and a title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dssm_tf.runtime.boosts import AppliedBoost, parts_of_boosts
from dssm_tf.runtime.hashed_words import Floats, WordFeatures
from dssm_tf.runtime.maxsim import QUERY, TITLE, MaxSim
from dssm_tf.text.fields import without_marks


class WordMatch(NamedTuple):
    """A distinct word of one text and the most similar word of the other text.

    Attributes:
        word: the word.
        matched_word: the most similar word of the other text, the first if several are; None if all
            similarities are 0.
        similarity: from 0 to 1.
        weight: the contribution at similarity 1.
        contribution: `weight * similarity`, the word's part of the score.
    """

    word: str
    matched_word: str | None
    similarity: float
    weight: float
    contribution: float


class PairMatch(NamedTuple):
    """A pair of neighboring words of both texts, and its part of the score from both sides."""

    pair: str
    contribution: float


class CosinePart(NamedTuple):
    """A distinct word of the query and its part of the cosine of the text vectors.

    Attributes:
        word: the word.
        contribution: its part of the score; below 0 if the word makes the texts less similar.
    """

    word: str
    contribution: float


class AppliedRule(NamedTuple):
    """A rule by hand for a word of the query and a word of the title.

    Attributes:
        query_word: the word of the query.
        title_word: the word of the title.
        similarity: that of the rule; 0 if the words never match.
        model_similarity: the similarity by the model, without the rule.
        line: the line of the rule in its file.
    """

    query_word: str
    title_word: str
    similarity: float
    model_similarity: float
    line: int

    def displayed(self) -> AppliedRule:
        """The same rule as users read it: words without the marks of their fields."""
        return self._replace(
            query_word=without_marks(self.query_word), title_word=without_marks(self.title_word)
        )

    def __str__(self) -> str:
        return (
            f"By line {self.line} of the rules, the similarity of '{self.query_word}' and "
            f"'{self.title_word}' is {self.similarity:.2f}; "
            f"without the rule {self.model_similarity:.2f}."
        )


def _displayed(match: WordMatch) -> WordMatch:
    other = match.matched_word
    return match._replace(
        word=without_marks(match.word), matched_word=None if other is None else without_marks(other)
    )


class WordMatches(NamedTuple):
    """The parts of a score. All contributions add up to the score without the prior.

    Attributes:
        query: each distinct word of the query, in order.
        title: each distinct word of the title, in order.
        pairs: the pairs of both texts, in the order of the query.
        text_cosine: each distinct word of the query, in order, if the model has text vectors.
        rules: the rules by hand for a word of the query and one of the title, even if these words
            match other words.
    """

    query: list[WordMatch]
    title: list[WordMatch]
    pairs: list[PairMatch]
    text_cosine: list[CosinePart]
    rules: list[AppliedRule]

    @property
    def score(self) -> float:
        """The sum of all contributions."""
        words = sum(match.contribution for match in (*self.query, *self.title))
        pairs = sum(pair.contribution for pair in self.pairs)
        return words + pairs + sum(part.contribution for part in self.text_cosine)

    def displayed(self) -> WordMatches:
        """The same matches as users read them: words without the marks of their fields."""
        return WordMatches(
            [*map(_displayed, self.query)],
            [*map(_displayed, self.title)],
            [pair._replace(pair=without_marks(pair.pair)) for pair in self.pairs],
            [part._replace(word=without_marks(part.word)) for part in self.text_cosine],
            [rule.displayed() for rule in self.rules],
        )

    def rule_of(self, match: WordMatch) -> AppliedRule | None:
        """The rule that gives the similarity of a query word and its match, if any."""
        words = match.word, match.matched_word
        return next((rule for rule in self.rules if rule[:2] == words), None)


def parts_of_score(
    matches: WordMatches,
    prior: float,
    remembered_clicks: float,
    boosts: tuple[AppliedBoost, ...] = (),
) -> dict[str, float]:
    """The parts of a score by their names in JSON; they add up to the score.

    Args:
        matches: the words and pairs that match, and the cosine of the text vectors.
        prior: the weighted log-prior of the title.
        remembered_clicks: the part that the remembered clicks of the query add.
        boosts: the boosts of a search; their parts have names such as `boost_sales`.
    """
    return {
        "query_words": sum(match.contribution for match in matches.query),
        "title_words": sum(match.contribution for match in matches.title),
        "pairs": sum(pair.contribution for pair in matches.pairs),
        "text_cosine": sum(part.contribution for part in matches.text_cosine),
        "prior": prior,
        "remembered_clicks": remembered_clicks,
        **parts_of_boosts(boosts),
    }


def shown_parts(parts: Mapping[str, float], digits: int = 3) -> dict[str, float]:
    """The parts of `parts_of_score` by their names in sentences, without further parts that are 0.

    >>> shown_parts({"query_words": 0.5, "title_words": 0.0, "pairs": 0.0, "prior": -0.25})
    {'query words': 0.5, 'title words': 0.0, 'prior': -0.25}
    >>> shown_parts({"boost_list_price": 0.5})
    {'boost list_price': 0.5}
    """
    return {
        name.replace("_", " ", 1 if name.startswith("boost_") else -1): value
        for name, value in parts.items()
        if name in ("query_words", "title_words") or round(value, digits)
    }


def word_matches(model: MaxSim, query: Sequence[str], title: Sequence[str]) -> WordMatches:
    """The parts of the score of a query and a title, in float64; see `dssm_tf.runtime.maxsim`.

    Args:
        model: the trained model.
        query: the words of the query, in order, as `Vocabulary.words` returns them.
        title: the words of the title.
    """
    query_words, title_words = list(dict.fromkeys(query)), list(dict.fromkeys(title))
    query_features, title_features = map(model.exact_words, (query_words, title_words))
    # Unlike a matrix product, the sums of `einsum` are equal for equal vectors, so that they tie.
    cosines = np.einsum("qd,td->qt", query_features.vectors, title_features.vectors)
    similarities = model.similarities(cosines)
    rules = []
    for row, word in enumerate(query_words):
        for column, other in enumerate(title_words):
            if (rule := model.search_rules.between(word, other)) is not None:
                by_model = float(similarities[row, column])
                rules.append(AppliedRule(word, other, rule.similarity, by_model, rule.line))
                similarities[row, column] = rule.similarity
    text_cosine = []
    if (text_vectors := model.text_vectors) is not None:
        parts = text_vectors.word_parts(query_words, title_words).tolist()
        text_cosine = list(map(CosinePart, query_words, parts))
    word_weights, pair_weights = _weights(model, query_features, query, QUERY)
    title_word_weights, title_pair_weights = _weights(model, title_features, title, TITLE)
    return WordMatches(
        _matches(query_words, title_words, similarities, word_weights),
        _matches(title_words, query_words, similarities.T, title_word_weights),
        [
            PairMatch(pair, weight + title_pair_weights[pair])
            for pair, weight in pair_weights.items()
            if pair in title_pair_weights
        ],
        text_cosine,
        rules,
    )


def _weights(
    model: MaxSim, features: WordFeatures, text: Sequence[str], side: int
) -> tuple[Floats, dict[str, float]]:
    """The contributions of the distinct words and pairs of a text to the score if all match fully.

    Args:
        model: the trained model.
        features: the features of the distinct words.
        text: the words of the text, in order.
        side: `QUERY` or `TITLE`.
    """
    pairs = model.frequencies.pairs_of(text)
    word_weights, pair_weights = features.weights[:, side], model.pair_weights(pairs)[:, side]
    total = word_weights.sum() + pair_weights.sum()
    scale = model.side_weights[side] / total if total > 0 else 0.0
    return scale * word_weights, dict(zip(pairs, (scale * pair_weights).tolist(), strict=True))


def _matches(
    words: Sequence[str], others: Sequence[str], similarities: Floats, weights: Floats
) -> list[WordMatch]:
    """The most similar word of the other text for each word.

    Args:
        words: the distinct words of a text.
        others: the distinct words of the other text.
        similarities: `(words, others)`.
        weights: the contribution of each word at similarity 1.
    """
    if not others:
        return [WordMatch(word, None, 0.0, 0.0, 0.0) for word in words]
    best = similarities.argmax(axis=1)
    rows = zip(words, best, similarities.max(axis=1), weights, strict=True)
    return [
        WordMatch(
            word,
            others[column] if similarity > 0 else None,
            float(similarity),
            float(weight),
            float(weight * similarity),
        )
        for word, column, similarity, weight in rows
    ]
