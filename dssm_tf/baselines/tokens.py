"""Texts as arrays of word ids in order, for counts, windows and phrases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from typing_extensions import Self

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """The words of texts, one text after another.

    Attributes:
        ids: `(tokens,)`, the id of each word; -1 if the word is unknown.
        starts: `(texts + 1,)`, the index in `ids` at which each text begins; the last entry is the
            number of tokens.
        size: number of known words.

    >>> Tokens.from_texts([["b", "a"], [], ["a"]], {"a": 0, "b": 1}).starts
    array([0, 2, 2, 3])
    """

    ids: Ids
    starts: Ids
    size: int

    @classmethod
    def from_texts(cls, texts: Iterable[list[str]], ids: Mapping[str, int]) -> Self:
        """Converts words to their ids; unknown words become -1."""
        texts = list(texts)
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        word_ids = map(ids.get, chain.from_iterable(texts), repeat(-1))
        return cls(np.fromiter(word_ids, np.int64, count=int(starts[-1])), starts, len(ids))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> Ids:
        """The number of words of each text, known or unknown: `(texts,)`."""
        return np.diff(self.starts)

    @cached_property
    def text_indices(self) -> Ids:
        """Index of the text that each token belongs to: `(tokens,)`."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def by_word(self) -> sparse.csr_matrix:
        """Counts of each word in each text: float64 `(size, texts)`, indices sorted."""
        known = self.ids >= 0
        return count_table(self.ids[known], self.text_indices[known], self.size, len(self))

    @cached_property
    def counts(self) -> sparse.csr_matrix:
        """The transpose of `by_word`: float64 `(texts, size)`, indices sorted."""
        known = self.ids >= 0
        return count_table(self.text_indices[known], self.ids[known], len(self), self.size)

    def positions(self, words: Ids) -> Ids:
        """The increasing indices in `ids` at which any of the given words occurs."""
        mask = np.zeros(self.size + 1, dtype=bool)  # the last entry is for unknown words, id -1
        mask[words] = True
        return np.flatnonzero(mask[self.ids])


def count_table(rows: Ids, columns: Ids, height: int, width: int) -> sparse.csr_matrix:
    """How often each (row, column) occurs: float64 `(height, width)`, indices sorted."""
    table = sparse.coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(height, width)).tocsr()
    table.sort_indices()
    return table


def index_in(keys: Ids, known: Ids) -> Ids:
    """The index of each key in `known`, an increasing array; -1 for other keys."""
    if len(known) == 0:
        return np.full(keys.shape, -1)
    indices = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[indices] == keys, indices, -1)
