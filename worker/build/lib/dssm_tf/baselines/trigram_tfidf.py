"""The cosine of TF-IDF vectors over letter trigrams: what a click model has to beat."""

from __future__ import annotations

from itertools import chain

from dssm_tf.baselines.terms import Terms
from dssm_tf.baselines.tfidf import TfIdf
from dssm_tf.text.letter_ngrams import letter_ngrams


class LetterTrigrams(Terms):
    """The letter trigrams of texts in place of their words.

    >>> LetterTrigrams.of(["A cat"]).words
    ('#a#', '#ca', 'at#', 'cat')
    """

    @staticmethod
    def split(text: str) -> list[str]:
        """The trigrams of a text's words, in order."""
        return list(chain.from_iterable(map(letter_ngrams, Terms.split(text))))


class TrigramTfIdf(TfIdf):
    """Scores a title by the cosine of two TF-IDF vectors of letter trigrams, from 0 to 1.

    Differs from `TfIdf` by what is counted. It reads what a click model reads and learns no click:
    the control for what clicks are worth, hard to beat on a small log.

    Reference: Salton and Buckley 1988 for the weights; Huang et al. 2013 for the trigrams.
    """

    name = "trigram_tfidf"
    counted = LetterTrigrams

    terms: LetterTrigrams
