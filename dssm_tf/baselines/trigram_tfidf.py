"""The cosine of TF-IDF vectors over letter trigrams: a control that learns from no clicks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from dssm_tf.baselines.base import Click, LearnedShapes
from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tfidf import TfIdf, TfIdfStatistics, idf_of
from dssm_tf.text.letter_ngrams import letter_ngrams


class LetterTrigrams(Terms):
    """The letter trigrams of texts instead of their words.

    >>> LetterTrigrams.from_texts(["A cat"]).words
    ('#a#', '#ca', 'at#', 'cat')
    """

    @staticmethod
    def split(text: str) -> list[str]:
        """The trigrams of a text's words, in order."""
        return list(chain.from_iterable(map(letter_ngrams, Terms.split(text))))


@dataclass(frozen=True, eq=False)
class TrigramStatistics(TfIdfStatistics):
    """The statistics of `TfIdfStatistics` for letter trigrams."""

    terms: LetterTrigrams


class TrigramTfIdf(TfIdf):
    """Scores a title by the cosine of two TF-IDF vectors of letter trigrams, from 0 to 1.

    Differs from `TfIdf` by counting trigrams. It reads the same trigrams as the DSSM but
    learns nothing from clicks, so a comparison of the two shows the value of clicks. It is hard to
    beat on a small log.

    Reference: Salton and Buckley 1988 for the weights; Huang et al. 2013 for the trigrams.
    """

    name = "trigram_tfidf"
    learned_type = TrigramStatistics
    learned_shapes: ClassVar[LearnedShapes] = {"idf": ("terms",)}

    def _fit(self, clicks: list[Click], titles: list[str]) -> TrigramStatistics:
        terms = LetterTrigrams.from_corpus(titles, self.name)
        return TrigramStatistics(terms, idf_of(terms, titles))
