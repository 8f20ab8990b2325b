"""The results of a search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import TitleRule
from dssm_tf.runtime.word_matches import WordMatches
from dssm_tf.tables.cells import one_line
from dssm_tf.text.fields import split_mark

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
        """The parts of the title between spaces, and whether each has a word of the query.

        Args:
            query: the query.
            split: splits a text into words.
        """
        return _marked(self.title, {*split(query)}, split)


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

    def score_breakdown(self) -> str:
        """The score and its parts as text, then the words that match other words.

        Pairs and the prior are omitted if they are 0. Of a query word that matches another word of
        the title, their similarity follows. Rules by hand are named by their lines.
        """
        terms = [f"score {self.score:.3f}"]
        for name, matches in (
            ("words of the query", self.matches.query),
            ("words of the title", self.matches.title),
            ("pairs", self.matches.pairs),
        ):
            if matches or name != "pairs":
                terms.append(f"{name} {sum(match.contribution for match in matches):+.3f}")
        if round(self.prior, 3):
            terms.append(f"prior {self.prior:+.3f}")
        if self.pinned is not None:
            terms.insert(0, f"pinned by rule in line {self.pinned.line}")
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
        terms += [
            f"{split_mark(rule.query_word)[1]} not {split_mark(rule.title_word)[1]} "
            f"by rule in line {rule.line}"
            for rule in self.matches.rules
            if not rule.similarity
        ]
        return ", ".join(terms)

    def title_parts(self, query: str, split: Split) -> list[tuple[str, bool]]:
        """The parts of the title between spaces, and whether each has a matched word.

        Args:
            query: the query, which this hit has already.
            split: splits a text into words.
        """
        matched = {match.match for match in self.matches.query if match.match is not None}
        return _marked(self.title, {split_mark(word)[1] for word in matched}, split)


AnyHit = Hit | MatchHit


def _marked(title: str, words: Collection[str], split: Split) -> list[tuple[str, bool]]:
    """The parts of a title between spaces, and whether each has one of some words."""
    return [(part, not {*words}.isdisjoint(split(part))) for part in one_line(title).split()]


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
