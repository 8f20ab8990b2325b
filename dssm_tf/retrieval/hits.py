"""The results of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import punctuation
from typing import NamedTuple

from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import TitleRule
from dssm_tf.runtime.word_matches import WordMatches
from dssm_tf.tables.cells import shown_text
from dssm_tf.text.fields import split_mark

SHOWN = 200
"""The number of characters of a title that a page and the terminal show."""

SYSTEMS = {"hybrid": "Hybrid (BM25 + model)", "bm25": "BM25", "semantic": "Model"}
"""The rankings of a query in display order, with their headings."""

POOR_RESULTS = "No good match was found. These titles are the closest ones."
"""The note if every result misses a word of the query and is below the model's cutoff."""

NO_RESULTS = "Nothing was found: no title has a word of the query, and its letters are unknown."
"""The note if all rankings of an index with vectors are empty."""

NOTHING_SIMILAR = "Nothing was found: no title has a word that is similar to a word of the query."
"""The note if an index of words finds nothing."""

NO_WORDS = "The query has no word."
"""The note of an index of words for a query without words."""

Split = Callable[[str], list[str]]


class Hit(NamedTuple):
    """A title in a ranking by BM25, by a model with vectors, or by both.

    Args:
        doc_id: id of the title.
        title: text of the title.
        score: the score of the model, in every ranking: `similarity + prior`.
        similarity: cosine of the title's and the query's vectors.
        prior: the part of the score that does not depend on the query, the weighted log-prior.
        bm25_score: BM25 score of the title.
        rank_value: the number by which the ranking is sorted: the score, the BM25 score, or both
            combined, from 0 to 1.
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

        >>> Hit("d1", "Red Hat", 0.5, 0.8125, -0.3125, 2.5, 0.9).score_breakdown()
        'score 0.500, similarity 0.812, prior -0.312, BM25 2.5'
        >>> Hit("d2", "Blue Box", 0.5, 0.5, 0.0, 0.0, 0.1).score_breakdown()
        'score 0.500, similarity 0.500'
        """
        terms = [f"score {self.score:.3f}", f"similarity {self.similarity:.3f}"]
        if round(self.prior, 3):
            terms.append(f"prior {self.prior:+.3f}")
        if self.bm25_score:
            terms.append(f"BM25 {self.bm25_score:.1f}")
        return ", ".join(terms)

    def title_parts(self, query: str, split: Split) -> list[tuple[str, bool]]:
        """The parts of the shown title between spaces, and whether each has a word of the query.

        Args:
            query: the query.
            split: splits a text into words.
        """
        return _marked(self.title, {*split(query)}, split)


class LexicalHit(NamedTuple):
    """A title in a ranking by BM25, beside the ranking of a model that compares words.

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

    def title_parts(self, query: str, split: Split) -> list[tuple[str, bool]]:
        """See `Hit.title_parts`."""
        return _marked(self.title, {*split(query)}, split)


class ShownMatch(NamedTuple):
    """A word of the query and the word of the title that it matches.

    Attributes:
        word: the word of the query.
        match: the word as the title spells it, or as the model reads it if it is in no shown part
            of the title; None without a match.
        is_same: whether both are the same word.
        similarity: from 0 to 1.
        rule: the line of the rule by hand that sets the similarity, if any.
    """

    word: str
    match: str | None
    is_same: bool
    similarity: float
    rule: int | None


@dataclass(frozen=True)
class MatchHit:
    """A title in a ranking by the score maxsim.

    Args:
        doc_id: id of the title.
        title: text of the title.
        score: the score by which the ranking is sorted, that of the model.
        prior: the part of the score that does not depend on the query.
        query: the query.
        model: the model.
        pinned: the rule by hand that pins the title, if any.
    """

    doc_id: str
    title: str
    score: float
    prior: float
    query: str
    model: MaxSimRanker
    pinned: TitleRule | None = None

    @cached_property
    def matches(self) -> WordMatches:
        """The words and pairs of query and title that match; they add up to `score - prior`."""
        return self.model.word_matches(self.query, self.title)

    def parts(self, digits: int = 3) -> dict[str, float]:
        """The parts of the score, rounded so that they add up to the rounded score.

        Args:
            digits: digits after the point.

        Returns:
            The contributions of the words of the query, of those of the title, and of pairs, and
            the prior; pairs and prior are omitted if they are 0.
        """
        matches = self.matches
        parts = {
            "words of the query": sum(match.contribution for match in matches.query),
            "words of the title": sum(match.contribution for match in matches.title),
        }
        if matches.pairs:
            parts["pairs"] = sum(pair.contribution for pair in matches.pairs)
        if round(self.prior, digits):
            parts["prior"] = self.prior
        return rounded_parts(parts, self.score, digits)

    def matched_words(self, split: Split) -> list[ShownMatch]:
        """Each distinct word of the query with its match in the title, in order.

        Args:
            split: splits a text into words.
        """
        spelled: dict[str, str] = {}
        for part in shown_title(self.title).split():
            if len(words := split(part)) == 1:
                spelled.setdefault(words[0], part.strip(punctuation) or part)
        title = {match.word for match in self.matches.title}
        shown = []
        for match in self.matches.query:
            word = None if match.match is None else split_mark(match.match)[1]
            rule = self.matches.rule_of(match)
            shown.append(
                ShownMatch(
                    split_mark(match.word)[1],
                    None if word is None else spelled.get(word, word),
                    match.word in title and match.match is not None,
                    match.similarity,
                    None if rule is None else rule.line,
                )
            )
        return shown

    def applied_rules(self) -> list[str]:
        """Sentences about the rules by hand that pin the title, or by which words never match."""
        sentences = []
        if self.pinned is not None:
            sentences.append(f"pinned by rule in line {self.pinned.line}")
        sentences += [
            f"{split_mark(rule.query_word)[1]} not {split_mark(rule.title_word)[1]} "
            f"by rule in line {rule.line}"
            for rule in self.matches.rules
            if not rule.similarity
        ]
        return sentences

    def score_breakdown(self) -> str:
        """The score and its parts as text, then the words that match other words.

        Pairs and the prior are omitted if they are 0. Of a query word that matches another word of
        the title, their similarity follows. Rules by hand are named by their lines.
        """
        terms = [f"score {self.score:.3f}"]
        for name, value in self.parts().items():
            terms.append(f"{name} {value:+.3f}")
        pinned = 0 if self.pinned is None else 1
        rules = self.applied_rules()
        title = {match.word for match in self.matches.title}
        for match in self.matches.query:
            word = split_mark(match.word)[1]
            if match.match is None:
                terms.append(f"{word} unmatched")
            elif match.word not in title:
                similarity = f"{match.similarity:.2f}".removeprefix("0")
                rule = self.matches.rule_of(match)
                by_rule = f" by rule in line {rule.line}" if rule else ""
                terms.append(f"{word} → {split_mark(match.match)[1]} {similarity}{by_rule}")
        return ", ".join([*rules[:pinned], *terms, *rules[pinned:]])

    def title_parts(self, query: str, split: Split) -> list[tuple[str, bool]]:
        """The parts of the title between spaces, and whether each has a matched word.

        Args:
            query: the query, which this hit has already.
            split: splits a text into words.
        """
        matched = {match.match for match in self.matches.query if match.match is not None}
        return _marked(self.title, {split_mark(word)[1] for word in matched}, split)


AnyHit = Hit | LexicalHit | MatchHit


def rounded_parts(parts: Mapping[str, float], total: float, digits: int) -> dict[str, float]:
    """Rounds numbers so that they add up to their rounded total.

    All are rounded down, then those that lose most are rounded up (the largest remainders).

    Args:
        parts: numbers that add up to about `total`.
        total: their sum.
        digits: digits after the point.

    >>> rounded_parts({"words": 0.8246, "pairs": 0.1042, "prior": -0.3144}, 0.6144, 2)
    {'words': 0.82, 'pairs': 0.1, 'prior': -0.31}
    """
    scale = 10**digits
    units = {name: math.floor(value * scale) for name, value in parts.items()}
    missing = round(total * scale) - sum(units.values())
    by_remainder = sorted(parts, key=lambda name: units[name] - parts[name] * scale)
    if missing < 0:  # the parts add up to a little more than the total
        by_remainder.reverse()
    for name in by_remainder[: abs(missing)]:
        units[name] += 1 if missing > 0 else -1
    return {name: value / scale for name, value in units.items()}


def shown_title(title: str) -> str:
    """A title on one line, cut after `SHOWN` characters.

    >>> shown_title("red shoe"), len(shown_title("red " * 1000))
    ('red shoe', 200)
    """
    return shown_text(title, SHOWN)


def _marked(title: str, words: Collection[str], split: Split) -> list[tuple[str, bool]]:
    """The parts of a shown title between spaces, and whether each has one of some words."""
    return [(part, not {*words}.isdisjoint(split(part))) for part in shown_title(title).split()]


class SearchResult(NamedTuple):
    """The result of a search.

    Args:
        rankings: the best titles by each of `SYSTEMS`, or only by the model if it compares words.
        note: why the result is empty or poor; otherwise empty.
        blocked: a sentence for each title that a rule by hand blocks for the query.
    """

    rankings: Mapping[str, Sequence[AnyHit]]
    note: str
    blocked: Sequence[str] = ()
