"""Corrects the query words that an index of words does not contain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from dssm_tf.retrieval.maxsim_ranking import MaxSimRanking
from dssm_tf.runtime.corrections import Correction, KnownWord, correct_word, may_be_corrected
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.text.fields import mark_word, split_mark

_CACHED = 50_000  # words of queries


class Corrector:
    """Finds corrections by the rule of `dssm_tf.runtime.corrections`, with a cache.

    Several threads may use it.

    Args:
        maxsim: the model, with its rules by hand.
        words: the words of the titles of the index, by row.
        row_of: the row of each word.
        ranking: the ranking of the index; it finds similar words.
    """

    def __init__(
        self,
        maxsim: MaxSim,
        words: Sequence[str],
        row_of: Mapping[str, int],
        ranking: MaxSimRanking,
    ) -> None:
        self._maxsim = maxsim
        self._words = words
        self._row_of = row_of
        self._ranking = ranking
        self._correction = lru_cache(_CACHED)(self._correct)

    def corrections(self, words: Sequence[str]) -> list[Correction]:
        """The corrections of the unknown words of a query.

        Args:
            words: the words of the query, in order.
        """
        unknown = [word for word in words if word not in self._row_of]
        if not unknown:
            return []
        corrections = map(self._correction, dict.fromkeys(unknown))
        return [correction for correction in corrections if correction is not None]

    def is_known(self, word: str) -> bool:
        """Whether a title of the index or of the training data, or a rule by hand, has a word."""
        title_counts = self._maxsim.frequencies.words
        fields = self._maxsim.vocabulary.rules.own_fields
        return (
            any(
                marked in self._row_of or marked in title_counts
                for marked in marked_words(word, fields)
            )
            or next(self._maxsim.search_rules.of_word(word), None) is not None
        )

    def similar_words(self, word: str) -> Iterator[KnownWord]:
        """The words of titles that are similar to a word of a query, most similar first."""
        title_counts = self._maxsim.frequencies.words
        for row, similarity in self._ranking.similar_words(word):
            marked = self._words[row]
            yield KnownWord(split_mark(marked)[1], similarity, title_counts.get(marked, 0))

    def _correct(self, word: str) -> Correction | None:
        """The correction of a word; None if it is known or has none."""
        if not may_be_corrected(word) or self.is_known(word):
            return None
        return correct_word(word, self.similar_words(word))


def marked_words(word: str, fields: int) -> Iterator[str]:
    """The word as each field of a title has it.

    Args:
        word: the word of a query.
        fields: the number of fields with separate words, see `TextRules.own_fields`.
    """
    return (mark_word(word, field) for field in range(fields))
