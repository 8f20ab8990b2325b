"""Did you mean: the most similar known word of an unknown query word.

A word is unknown if neither the catalog, nor the training titles, nor a rule by hand has it. Its
correction is a known word that satisfies all of the following conditions:

- Both words consist of letters. So numbers and model numbers, such as `gt540`, are never corrected.
- The unknown word has at least five letters. Most words of four letters are one edit away from
  several others.
- The similarity of the two words, by their vectors, is at least `MIN_SIMILARITY`.
- One edit makes them equal, or two if the unknown word has at least eight letters. An edit inserts,
  deletes or replaces a letter, or swaps two neighbors. So a word with a similar use and other
  letters, such as `shoe` for `sneaker`, is no correction.

If several words satisfy them, the correction is the one with the fewest edits, then with the
highest `similarity + 0.03 ln(n)`. Here `n` is the number of training titles that have the word:
catalogs have typing errors, too. A plural of a known word, or its singular, is not corrected.

docs/retrieval.md has the measured precision and recall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log
from typing import NamedTuple

MIN_SIMILARITY = 0.5
"""The similarity of a word and its correction; `tests.benchmarks.corrections` chooses it."""

_MIN_LETTERS = 5
_TWO_EDITS = 8  # minimum number of letters of a word in which two edits are corrected
_FREQUENCY_WEIGHT = 0.03  # of ln(titles), beside the similarity


class Correction(NamedTuple):
    """An unknown word of a query and its most similar known word.

    Attributes:
        word: the word of the query, as the model reads it.
        correction: the known word.
        similarity: the similarity of the two words, from 0 to 1.
    """

    word: str
    correction: str
    similarity: float


def may_be_corrected(word: str) -> bool:
    """Whether a word is long enough and has letters only.

    >>> may_be_corrected("hedphones"), may_be_corrected("gt540"), may_be_corrected("kai")
    (True, False, False)
    """
    return len(word) >= _MIN_LETTERS and word.isalpha()


class KnownWord(NamedTuple):
    """A known word, its similarity to an unknown one, and the number of titles that have it."""

    word: str
    similarity: float
    titles: int


def correct_word(
    word: str, similar: Iterable[KnownWord], min_similarity: float = MIN_SIMILARITY
) -> Correction | None:
    """The correction of an unknown word; None if there is none.

    Args:
        word: the word.
        similar: known words, most similar first.
        min_similarity: the lowest similarity of a correction.

    >>> correct_word("hedphones", [KnownWord("phones", 0.8, 9), KnownWord("headphones", 0.7, 4)])
    Correction(word='hedphones', correction='headphones', similarity=0.7)
    """
    if not may_be_corrected(word):
        return None
    max_edits = 1 if len(word) < _TWO_EDITS else 2
    best, best_value = None, (-max_edits - 1, 0.0)
    for known, similarity, titles in similar:
        if similarity < min_similarity:
            break
        if not known.isalpha() or abs(len(known) - len(word)) > max_edits:
            continue
        if _is_plural(word, known) or _is_plural(known, word):
            return None
        edits = edit_distance(word, known)
        value = -edits, similarity + _FREQUENCY_WEIGHT * log(max(1, titles))
        if edits <= max_edits and value > best_value:
            best, best_value = Correction(word, known, similarity), value
    return best


def _is_plural(word: str, other: str) -> bool:
    """Whether a word is another word and an `s`; `wireless` is not the plural of `wireles`."""
    return word == f"{other}s" and not other.endswith("s")


def edit_distance(first: str, second: str) -> int:
    """The optimal string alignment distance of two words (Damerau 1964).

    The smallest number of edits that make the words equal: insertions, deletions and replacements
    of a letter, and swaps of two neighbors, with no letter edited twice.

    >>> edit_distance("barcket", "bracket"), edit_distance("hedphone", "headphones")
    (1, 2)
    """
    start, ends = 0, (len(first), len(second))
    while start < min(ends) and first[start] == second[start]:
        start += 1
    while start < min(ends) and first[ends[0] - 1] == second[ends[1] - 1]:
        ends = ends[0] - 1, ends[1] - 1
    first, second = first[start : ends[0]], second[start : ends[1]]  # they differ at both ends
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        next_row = [i]
        for j, other in enumerate(second, 1):
            edits = min(row[j] + 1, next_row[-1] + 1, row[j - 1] + (letter != other))
            if min(i, j) > 1 and (letter, first[i - 2]) == (second[j - 2], other):
                edits = min(edits, before[j - 2] + 1)
            next_row.append(edits)
        before, row = row, next_row
    return row[-1]


def corrected_query(
    query: str, corrections: Sequence[Correction], split: Callable[[str], list[str]]
) -> str:
    """The query with its corrections, for a sentence such as "Did you mean ...?".

    Args:
        query: the query; parts without a corrected word stay as they were typed.
        corrections: the corrections of its words.
        split: splits a text into words.

    Returns:
        The query on one line; empty without corrections.

    >>> words = [Correction("hedphones", "headphones", 0.7)]
    >>> corrected_query("Wireless Hedphones!", words, lambda text: text.lower().strip("!").split())
    'Wireless headphones'
    """
    if not corrections:
        return ""
    correction_of = {word: correction for word, correction, _ in corrections}
    parts = []
    for part in query.split():
        words = split(part)
        if not correction_of.keys().isdisjoint(words):
            part = " ".join(correction_of.get(word, word) for word in words)
        parts.append(part)
    return " ".join(parts)
