"""The results of a search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import punctuation
from typing import NamedTuple

from dssm_tf.common.rounding import rounded_parts
from dssm_tf.runtime.boosts import AppliedBoost
from dssm_tf.runtime.corrections import Correction
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import TitleRule
from dssm_tf.runtime.word_matches import WordMatches, parts_of_score, shown_parts
from dssm_tf.tables.cells import shown_text
from dssm_tf.text.fields import without_marks

SHOWN_CHARACTERS = 200
"""The maximum number of characters of a title that the search page and the terminal show."""

SYSTEMS = {"semantic": "Model", "bm25": "BM25"}
"""The headings of the rankings of a query, by system, in display order."""

NO_GOOD_MATCH_NOTE = "No good match was found. These titles are the closest ones."
"""The note if no title is a good match, see `dssm_tf.runtime.good_match`."""

NO_KNOWN_NGRAM_NOTE = (
    "Nothing was found: no title has a word of the query, and the model has none of the query's "
    "letter n-grams."
)
"""The note if both rankings of an index with vectors are empty."""

NO_SIMILAR_WORD_NOTE = (
    "Nothing was found: no title has a word that is similar to a word of the query."
)
"""The note if a search with a maxsim model has no results."""

NO_QUERY_WORD_NOTE = "The query has no word."
"""The note if the query of a search with a maxsim model has no word."""

WordSplitter = Callable[[str], list[str]]
"""The type of a function that splits a text into words."""


class Hit(NamedTuple):
    """A title in a ranking by a model that gives one vector per text, or by BM25.

    Args:
        doc_id: id of the title.
        title: text of the title.
        score: the score of the model, `similarity + prior`, even in the ranking by BM25.
        similarity: cosine of the title's and the query's vectors.
        prior: the weighted log-prior of the title, which does not depend on the query.
        bm25_score: BM25 score of the title.
        rank_value: the number by which the ranking is sorted: `score` or `bm25_score`.
    """

    doc_id: str
    title: str
    score: float
    similarity: float
    prior: float
    bm25_score: float
    rank_value: float

    def score_breakdown(self) -> str:
        """The score of the model and its parts as text, then the BM25 score unless it is 0.

        The parts are rounded so that they add up to the rounded score.

        >>> Hit("d1", "Red Hat", 0.5, 0.8125, -0.3125, 2.5, 0.9).score_breakdown()
        'score 0.500, similarity 0.813, prior -0.313, BM25 2.5'
        >>> Hit("d2", "Blue Box", 0.5, 0.5, 0.0, 0.0, 0.1).score_breakdown()
        'score 0.500, similarity 0.500'
        >>> Hit("d3", "Blue Lid", 0.4996, 0.8124, -0.3128, 0.0, 0.1).score_breakdown()
        'score 0.500, similarity 0.813, prior -0.313'
        """
        parts = self.parts()
        terms = [f"score {self.score:.3f}", f"similarity {parts['similarity']:.3f}"]
        if "prior" in parts:
            terms.append(f"prior {parts['prior']:+.3f}")
        if self.bm25_score:
            terms.append(f"BM25 {self.bm25_score:.1f}")
        return ", ".join(terms)

    def parts(self) -> dict[str, float]:
        """The parts of the score, rounded so that they add up.

        A prior that rounds to 0 is left out.
        """
        exact = {"similarity": self.similarity}
        if round(self.prior, 3):
            exact["prior"] = self.prior
        return rounded_parts(exact, self.score, 3)

    def title_parts(self, query: str, split: WordSplitter) -> list[tuple[str, bool]]:
        """Splits the displayed title at spaces, and marks each part that matches.

        Args:
            query: the query. A part matches if it contains a word of the query.
            split: splits a text into words.

        Returns:
            Each part, and whether it matches.
        """
        return _marked(self.title, {*split(query)}, split)


class LexicalHit(NamedTuple):
    """A title in a ranking by BM25, to compare with the ranking of a maxsim model.

    Args:
        doc_id: id of the title.
        title: text of the title.
        score: the BM25 score.
    """

    doc_id: str
    title: str
    score: float

    def score_breakdown(self) -> str:
        """The score as text."""
        return f"BM25 {self.score:.1f}"

    def title_parts(self, query: str, split: WordSplitter) -> list[tuple[str, bool]]:
        """See `Hit.title_parts`."""
        return _marked(self.title, {*split(query)}, split)


class ShownMatch(NamedTuple):
    """A word of the query and the word of the title that it matches, for display.

    Attributes:
        word: the word of the query.
        matched_word: the word as the displayed title spells it, or else as the model reads it: if
            the title is truncated before the word, or has no space between it and another word.
            None without a match.
        is_same: whether both are the same word.
        similarity: from 0 to 1.
        rule: the line number of the rule by hand that sets the similarity, if any.
    """

    word: str
    matched_word: str | None
    is_same: bool
    similarity: float
    rule: int | None


@dataclass
class MatchHit:
    """A title in a ranking by the score maxsim.

    Args:
        doc_id: id of the title.
        title: text of the title.
        score: the score of the model, with remembered clicks and boosts; it sorts the ranking.
        prior: the weighted log-prior of the title, which does not depend on the query.
        query: the query.
        model: the model.
        pin_rule: the rule by hand that pins the title, if any.
        remembered_score: the part of the score that remembered clicks add.
        boosts: the boosts of the search, applied to this title; `score` includes them.
    """

    doc_id: str
    title: str
    score: float
    prior: float
    query: str
    model: MaxSimRanker
    pin_rule: TitleRule | None = None
    remembered_score: float = 0.0
    boosts: tuple[AppliedBoost, ...] = ()

    def boosted(self, boosts: tuple[AppliedBoost, ...]) -> MatchHit:
        """A copy of this hit with boosts, which are added to its score."""
        added_score = sum(boost.part for boost in boosts)
        return replace(self, score=self.score + added_score, boosts=boosts)

    @cached_property
    def matches(self) -> WordMatches:
        """The words and pairs of query and title that match, and the text cosine.

        Their contributions add up to the score without the prior, remembered clicks and boosts.
        """
        return self.model.word_matches(self.query, self.title)

    def exact_parts(self) -> dict[str, float]:
        """The parts of the score, which add up to it; see `parts_of_score`."""
        return parts_of_score(self.matches, self.prior, self.remembered_score, self.boosts)

    def parts(self, digits: int = 3) -> dict[str, float]:
        """The displayed parts of the score, rounded so that they add up to the rounded score.

        Args:
            digits: number of digits after the decimal point.

        Returns:
            The parts by their displayed names. Parts that are 0 are left out, except those of the
            words of query and title.
        """
        return rounded_parts(shown_parts(self.exact_parts(), digits), self.score, digits)

    def matched_words(self, split: WordSplitter) -> list[ShownMatch]:
        """Each distinct word of the query with its match in the title, in the order of the query.

        Args:
            split: splits a text into words.
        """
        spelling_of: dict[str, str] = {}
        for part in shown_title(self.title).split():
            if len(words := split(part)) == 1:
                spelling_of.setdefault(words[0], part.strip(punctuation) or part)
        title_words = {match.word for match in self.matches.title}
        matches = []
        for match in self.matches.query:
            title_word = None if match.matched_word is None else without_marks(match.matched_word)
            rule = self.matches.rule_of(match)
            matches.append(
                ShownMatch(
                    without_marks(match.word),
                    None if title_word is None else spelling_of.get(title_word, title_word),
                    match.word in title_words and match.matched_word is not None,
                    match.similarity,
                    None if rule is None else rule.line,
                )
            )
        return matches

    def applied_rules(self) -> list[str]:
        """Describes the rule that pins the title, and the rules that prevent matches of words."""
        sentences = []
        if self.pin_rule is not None:
            sentences.append(f"pinned by rule in line {self.pin_rule.line}")
        sentences += [
            f"{without_marks(rule.query_word)} not {without_marks(rule.title_word)} "
            f"by rule in line {rule.line}"
            for rule in self.matches.rules
            if not rule.similarity
        ]
        return sentences

    def score_breakdown(self) -> str:
        """The score, its `parts`, and each query word that matches another word or none, as text.

        A query word that matches another word is followed by that word and the similarity. Rules by
        hand are identified by their line numbers.
        """
        terms = [f"score {self.score:.3f}"]
        for name, value in self.parts().items():
            terms.append(f"{name} {value:+.3f}")
        pin_count = 0 if self.pin_rule is None else 1
        rules = self.applied_rules()  # the one that pins is first
        title_words = {match.word for match in self.matches.title}
        for match in self.matches.query:
            word = without_marks(match.word)
            if match.matched_word is None:
                terms.append(f"{word} unmatched")
            elif match.word not in title_words:
                similarity = f"{match.similarity:.2f}".removeprefix("0")
                rule = self.matches.rule_of(match)
                by_rule = f" by rule in line {rule.line}" if rule else ""
                terms.append(f"{word} → {without_marks(match.matched_word)} {similarity}{by_rule}")
        return ", ".join([*rules[:pin_count], *terms, *rules[pin_count:]])

    def title_parts(self, query: str, split: WordSplitter) -> list[tuple[str, bool]]:
        """Splits the displayed title at spaces, and marks each part that matches.

        Args:
            query: not used, because the hit contains its query.
            split: splits a text into words.

        Returns:
            Each part, and whether it matches.
        """
        matched = {
            match.matched_word for match in self.matches.query if match.matched_word is not None
        }
        return _marked(self.title, {without_marks(word) for word in matched}, split)


AnyHit = Hit | LexicalHit | MatchHit
"""A title of any ranking."""


def shown_title(title: str) -> str:
    """A title on one line, truncated after `SHOWN_CHARACTERS` characters.

    >>> shown_title("red shoe"), len(shown_title("red " * 1000))
    ('red shoe', 200)
    """
    return shown_text(title, SHOWN_CHARACTERS)


def _marked(title: str, words: Collection[str], split: WordSplitter) -> list[tuple[str, bool]]:
    """Splits the displayed title at spaces; returns each part, and whether it has a given word."""
    return [(part, not {*words}.isdisjoint(split(part))) for part in shown_title(title).split()]


class SearchResult(NamedTuple):
    """The result of a search.

    Args:
        rankings: the best titles by system, see `SYSTEMS`; only `semantic` for a maxsim model.
        note: the reason if the result is empty or poor; otherwise empty.
        blocked: a sentence for each title that a rule by hand blocks for the query.
        corrections: unknown words of the query, each with a known word that it may mean; only for
            maxsim models.
        corrected_query: the query with `corrections` applied; empty without corrections.
    """

    rankings: Mapping[str, Sequence[AnyHit]]
    note: str
    blocked: Sequence[str] = ()
    corrections: Sequence[Correction] = ()
    corrected_query: str = ""


def correction_question(result: SearchResult) -> str:
    """A question about the corrected query, with each correction.

    >>> words = [Correction("hedphones", "headphones", 0.7)]
    >>> correction_question(SearchResult({}, "", (), words, "wireless headphones"))
    'Did you mean: wireless headphones? (hedphones → headphones .70)'
    """
    words = ", ".join(
        f"{word} → {correction} {f'{similarity:.2f}'.removeprefix('0')}"
        for word, correction, similarity in result.corrections
    )
    return f"Did you mean: {shown_text(result.corrected_query)}? ({words})"
