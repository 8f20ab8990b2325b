"""Explains a score of the kind maxsim by its exact parts: words, pairs, text cosine and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dssm_tf.analysis.read_words import read_words
from dssm_tf.common.rounding import rounded_parts
from dssm_tf.runtime.boosts import AppliedBoost
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.word_matches import (
    CosinePart,
    WordMatch,
    WordMatches,
    parts_of_score,
    shown_parts,
)


@dataclass(frozen=True)
class MatchedText:
    """The distinct words of one of the two texts, with their matches in the other text.

    Attributes:
        name: `query` or `title`.
        matches: the match of each word, in order; see `WordMatches.displayed`.
    """

    name: str
    matches: list[WordMatch]

    @property
    def words(self) -> list[str]:
        """The words without the marks of their fields; two fields may have the same word."""
        return [match.word for match in self.matches]

    def columns(self) -> dict[str, list[Any]]:
        """Columns of a table of the words, by heading."""
        return {
            "matches": [match.matched_word for match in self.matches],
            "similarity": [f"{match.similarity:.2f}" for match in self.matches],
            "adds": [match.contribution for match in self.matches],
            "adds at most": [match.weight for match in self.matches],
        }

    def contribution(self) -> float:
        """The sum of the words' contributions."""
        return sum(match.contribution for match in self.matches)

    def to_json(self) -> dict[str, Any]:
        """Plain data; one record per word."""
        return {"words": [match._asdict() for match in self.matches]}


@dataclass(frozen=True)
class MatchExplanation:
    """Explains how a query and a title match by the exact parts of their score.

    The contributions of all words and pairs and of the text cosine, the prior, the remembered
    clicks and the boosts add up to the score.

    Attributes:
        name: name of the model.
        matches: the words and pairs of both texts, and the text cosine by words of the query, with
            their contributions. Words have the marks of their fields; all texts and tables show
            them without.
        prior: weighted log-prior of the title.
        mean_prior: mean of the weighted log-priors of the clicked titles.
        remembered_score: the part of the score that the remembered clicks of the query add.
        clicks: the remembered clicks of the query on this title, and on all titles.
        notes: limits of the explanation, in sentences.
        boosts: the boosts of a search, with the numbers of the title.
    """

    measure: ClassVar[str] = "maxsim"
    method: ClassVar[str] = (
        "Contributions are exact: with the prior, remembered clicks and boosts, they add up to the "
        "score."
    )

    name: str
    matches: WordMatches
    prior: float
    mean_prior: float
    remembered_score: float
    clicks: tuple[int, int]
    notes: list[str]
    boosts: tuple[AppliedBoost, ...] = ()

    @property
    def query(self) -> MatchedText:
        """The words of the query."""
        return MatchedText("query", self.matches.displayed().query)

    @property
    def title(self) -> MatchedText:
        """The words of the title."""
        return MatchedText("title", self.matches.displayed().title)

    @property
    def similarity(self) -> float:
        """The score without the prior, the remembered clicks and boosts."""
        return self.matches.score

    @property
    def score(self) -> float:
        """The score by which titles are ranked, the sum of its parts."""
        boosts = sum(boost.part for boost in self.boosts)
        return self.similarity + self.prior + self.remembered_score + boosts

    def parts(self) -> dict[str, float]:
        """The parts of the score, which add up to it; see `parts_of_score`."""
        return parts_of_score(self.matches, self.prior, self.remembered_score, self.boosts)

    def _rounded_parts(self) -> dict[str, float]:
        """The parts of the score by their displayed names, rounded so that they add up."""
        return rounded_parts(shown_parts(self.parts()), self.score, 3)

    def score_breakdown(self) -> str:
        """The parts of the score, as text."""
        terms = ", ".join(f"{name} {value:+.3f}" for name, value in self._rounded_parts().items())
        return f"Score {self.score:.3f}: {terms}"

    def sentences(self) -> list[str]:
        """Sentences about the parts of the score, the rules, and the popularity.

        The words of the query are in the order of their contributions.
        """
        displayed, title_words = (
            self.matches.displayed(),
            {match.word for match in self.matches.title},
        )
        is_in_title = [match.word in title_words for match in self.matches.query]
        query_words = sorted(
            zip(displayed.query, is_in_title, strict=True), key=lambda item: -item[0].contribution
        )
        lines = [_query_word(*item) for item in query_words if item[0].matched_word is not None]
        if unmatched := [match for match, _ in query_words if match.matched_word is None]:
            verb = "matches" if len(unmatched) == 1 else "match"
            lines.append(f"{_names(unmatched)} {verb} nothing in the title.")
        lines += [
            f"'{pair.pair}' stands together in both texts ({pair.contribution:+.3f})."
            for pair in displayed.pairs
        ]
        if matched := [match for match in displayed.title if match.matched_word is not None]:
            lines.append(f"Words of the title that match: {_names(matched)}.")
        if unmatched := [match for match in displayed.title if match.matched_word is None]:
            lines.append(f"Words of the title that match nothing: {_names(unmatched)}.")
        lines += [*self._text_cosine(), *map(str, displayed.rules)]
        if self._has_prior():
            popularity = self.prior - self.mean_prior
            lines.append(
                f"Popularity {popularity:+.3f}: the prior minus that of the average clicked title."
            )
        if self.clicks[1]:
            lines.append(
                f"Of {self.clicks[1]} remembered clicks of this query, {self.clicks[0]} were on "
                f"this title ({self.remembered_score:+.3f})."
            )
        return lines + list(map(str, self.boosts))

    def _text_cosine(self) -> list[str]:
        """A sentence about the text cosine, if a word has a part of it.

        The parts of the words are rounded so that they add up. Those that round to 0 are left out.
        """
        parts = self.matches.displayed().text_cosine
        total = self._rounded_parts().get("text cosine", 0.0)
        exact = {str(row): part.contribution for row, part in enumerate(parts)}
        rounded = rounded_parts(exact, total, 3).values()
        displayed = [
            part._replace(contribution=value)
            for part, value in sorted(zip(parts, rounded, strict=True), key=lambda row: -row[1])
            if value
        ]
        if not displayed:
            return []
        return [
            f"Text cosine {total:+.3f}, which compares both texts as a whole: {_names(displayed)}."
        ]

    def _has_prior(self) -> bool:
        """Whether the model adds a prior to its scores."""
        return self.mean_prior != 0 or self.prior != 0

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain = ("name", "score", "measure", "similarity", "prior", "mean_prior", "notes")
        displayed = self.matches.displayed()
        return {name: getattr(self, name) for name in plain} | {
            "query": self.query.to_json(),
            "title": self.title.to_json(),
            "pairs": [pair._asdict() for pair in displayed.pairs],
            "text_cosine": [part._asdict() for part in displayed.text_cosine],
            "rules": [rule._asdict() for rule in displayed.rules],
            "parts": self.parts(),
            "remembered_clicks": {"title": self.clicks[0], "query": self.clicks[1]},
            "boosts": [boost._asdict() | {"part": boost.part} for boost in self.boosts],
            "sentences": self.sentences(),
        }


def explain_matches(ranker: MaxSimRanker, query: str, title: str) -> MatchExplanation:
    """Explains the score of a query and a title by the matches of their words.

    Args:
        ranker: a run or a compact model with the score maxsim.
        query: raw text.
        title: raw text.

    Raises:
        UserError: a text has no word.
    """
    notes = [
        note
        for side, text in (("query", query), ("title", title))
        for note in read_words(side, text, ranker.vocabulary)[1]
    ]
    key = ranker.vocabulary.rules.key
    notes += [
        f"Line {rule.line} of the rules {'pins' if rule.pinned else 'blocks'} this title for the "
        "query."
        for rule in ranker.search_rules.of_query(ranker.vocabulary.words(query))
        if key(rule.title) == key(title)
    ]
    prior = float(ranker.weighted_prior([title])[0])
    matches = ranker.word_matches(query, title)
    remembered_score = float(ranker.remembered_score(query, [title])[0])
    clicks = ranker.clicks_of(query, title)
    return MatchExplanation(
        ranker.name, matches, prior, ranker.mean_prior, remembered_score, clicks, notes
    )


def _query_word(match: WordMatch, is_in_title: bool) -> str:
    """Says how a word of the query matches the title.

    Args:
        match: the word and its match, without marks.
        is_in_title: whether the title has the word, in the same field if fields have own words.
    """
    if is_in_title:
        return f"'{match.word}' is in the title ({match.contribution:+.3f})."
    field = " of another field" if match.word == match.matched_word else ""
    return (
        f"'{match.word}' matches '{match.matched_word}'{field} in the title, "
        f"similarity {match.similarity:.2f} ({match.contribution:+.3f})."
    )


def _names(matches: Sequence[WordMatch | CosinePart]) -> str:
    """Words in quotation marks, with their contributions, except those that are 0."""
    return ", ".join(
        f"'{match.word}' ({match.contribution:+.3f})" if match.contribution else f"'{match.word}'"
        for match in matches
    )
