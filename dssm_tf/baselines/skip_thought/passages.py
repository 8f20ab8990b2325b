"""Contiguous text as passages of sentences, sentences as rows of word ids."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dssm_tf.baselines.skip_thought.vectors import END, UNKNOWN
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED

_END_ID = 1
UNKNOWN_ID = 2
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[^\s\W_]*[A-Z0-9])")
_TOKENS_END = re.compile(r"(?<=\s[.!?])(?:\s+|$)")
_AFTER_A_WORD = re.compile(r"\w[.!?](?=\s|$)")


def sentences(paragraph: str) -> list[str]:
    """Splits where a full stop, exclamation or question mark comes before a capital or a digit.

    In text that is already split into tokens, where most of these marks stand alone, those that
    do end a sentence.

    >>> sentences("A cat sat. It was 3 p.m. exactly! Why?")
    ['A cat sat.', 'It was 3 p.m. exactly!', 'Why?']
    >>> sentences("a cat sat . it was 3 p.m. exactly !")
    ['a cat sat .', 'it was 3 p.m. exactly !']
    """
    paragraph = paragraph.strip()
    alone, after = (len(one.findall(paragraph)) for one in (_TOKENS_END, _AFTER_A_WORD))
    end = _TOKENS_END if alone > after else _SENTENCE_END
    return [part for part in end.split(paragraph) if part]


def passages_of_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Passages of running text: sentences go on from line to line, a blank line ends a passage."""
    passage: list[str] = []
    for line in lines:
        found = sentences(line)
        passage += found
        if not found and passage:
            yield passage
            passage = []
    if passage:
        yield passage


def passages_of_cells(cells: Iterable[str]) -> Iterator[list[str]]:
    """Passages of a table: each cell is one, split into its sentences."""
    return (found for cell in cells if (found := sentences(cell)))


@dataclass(frozen=True)
class Passages:
    """Sentences in order, as ids: 0 padding, 1 `<eos>`, 2 `UNK`, then words by frequency.

    Args:
        dictionary: the word of each id, from 1 on.
        ids: all words, one sentence after another.
        ends: where each sentence ends in `ids`.
        passage: the number of each sentence's passage, rising.
    """

    dictionary: tuple[str, ...]
    ids: NDArray[np.int32]
    ends: NDArray[np.int64]
    passage: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        passages: Iterable[Sequence[str]],
        max_vocabulary: int,
        max_words: int,
        repeat: bool = False,
    ) -> Passages:
        """Reads passages once, keeping four bytes a word.

        Sentences without a word are left out, longer ones lose their end, and a passage of one
        sentence, which has no neighbour, teaches nothing and only counts for the dictionary.

        Args:
            passages: their sentences, raw.
            max_vocabulary: the most frequent words to keep; the others become `UNK`.
            max_words: words of a sentence that are read.
            repeat: whether each sentence that has a neighbour stands there twice.

        Raises:
            UserError: no two sentences are neighbours.
        """
        numbers: dict[str, int] = {}
        counts: Counter[int] = Counter()
        raw, ends, owner = array("i"), array("q"), array("q")
        for number, passage in enumerate(passages):
            rows = [
                [numbers.setdefault(word, len(numbers)) for word in found[:max_words]]
                for sentence in passage
                if (found := FOLDED.words(sentence))
            ]
            for row in rows:
                counts.update(row)
                for _ in range(1 + repeat if len(rows) > 1 else 0):
                    raw.extend(row)
                    ends.append(len(raw))
                    owner.append(number)
        if not ends:
            raise UserError(
                "the text holds no two sentences that follow each other; skip-thought learns from "
                "contiguous text: sentences one after another, or paragraphs of several."
            )
        spelled = list(numbers)
        kept = sorted(counts, key=lambda word: (-counts[word], spelled[word]))[:max_vocabulary]
        new = np.full(len(spelled), UNKNOWN_ID, np.int32)
        new[kept] = np.arange(len(kept), dtype=np.int32) + UNKNOWN_ID + 1
        return cls(
            dictionary=(END, UNKNOWN, *(spelled[word] for word in kept)),
            ids=new[np.frombuffer(raw, np.int32)],
            ends=np.array(ends, np.int64),
            passage=np.array(owner, np.int64),
        )

    def __len__(self) -> int:
        """The number of sentences."""
        return len(self.ends)

    def counts(self, largest: int) -> NDArray[np.int64]:
        """How often each id up to `largest` comes up, ids above it as `UNK`: `(largest + 1,)`."""
        named = np.where(self.ids > largest, UNKNOWN_ID, self.ids)
        counts = np.bincount(named, minlength=largest + 1)
        counts[_END_ID] = len(self)
        return counts

    def lengths(self) -> NDArray[np.int64]:
        """Words of each sentence."""
        return np.diff(self.ends, prepend=0)

    def neighbour(self, rows: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """The sentence `step` (-1 or 1) from each of `rows` in its passage, -1 where none is."""
        other = rows + step
        inside = (other >= 0) & (other < len(self))
        other = np.where(inside, other, rows)
        return np.where(inside & (self.passage[other] == self.passage[rows]), other, -1)

    def matrix(self, rows: NDArray[np.int64], width: int, end: bool) -> NDArray[np.int32]:
        """Ids `(len(rows), width)` of sentences, 0 at padding and for row -1.

        Args:
            rows: which sentences.
            width: columns.
            end: whether `<eos>` follows the last word.
        """
        matrix = np.zeros((len(rows), width), np.int32)
        for place, row in enumerate(rows):
            if row >= 0:
                words_of = self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]
                matrix[place, : len(words_of)] = words_of
                if end:
                    matrix[place, len(words_of)] = _END_ID
        return matrix
