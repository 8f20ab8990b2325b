"""Word counts of texts as sparse matrices: what every lexical and topic model starts from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self


class Terms:
    """A fixed set of words, and the counts of them in any texts.

    Args:
        known: the words; repeats are dropped.

    Attributes:
        words: in alphabetical order.
        ids: the place of each word in `words`.

    >>> terms = Terms.of(["red shoe", "Red red hat!"])
    >>> terms.words
    ('hat', 'red', 'shoe')
    >>> terms.count(["red tie red"]).toarray()
    array([[0., 2., 0.]])
    >>> terms.unknown(["red tie red"])
    array([1.])
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.words: tuple[str, ...] = tuple(sorted(set(known)))
        self.ids: dict[str, int] = {word: place for place, word in enumerate(self.words)}

    @classmethod
    def of(cls, texts: Iterable[str], min_count: int = 1) -> Self:
        """The words that the texts hold at least `min_count` times in all."""
        counts = Counter(chain.from_iterable(map(cls(()).split, texts)))
        return cls(word for word, count in counts.items() if count >= min_count)

    @classmethod
    def of_corpus(cls, titles: Sequence[str], name: str) -> Self:
        """The words that the titles hold.

        Args:
            titles: what a model counts.
            name: of the model.

        Raises:
            UserError: there is no word in the titles.
        """
        terms = cls.of(titles)
        if not terms:
            raise UserError(
                f"{name} got {len(titles)} titles and no word in them; "
                "it needs a corpus to learn from."
            )
        return terms

    def __len__(self) -> int:
        return len(self.words)

    def split(self, text: str) -> list[str]:
        """The words of a text, known or not, in order."""
        return FOLDED.words(text)

    def count(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Counts of the known words: float64 `(len(texts), len(self))`, columns in order."""
        ids, lengths = self._ids(texts)
        known = ids >= 0
        rows = np.repeat(np.arange(len(lengths)), lengths)[known]
        # The conversion adds up repeats and sorts each row, so that equal texts
        # have the same entries in the same order.
        counts: sparse.csr_matrix = sparse.coo_matrix(
            (np.ones(len(rows)), (rows, ids[known])), shape=(len(lengths), len(self))
        ).tocsr()
        counts.sort_indices()
        return counts

    def unknown(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """How many words of each text are not known, repeats counted: `(len(texts),)`."""
        ids, lengths = self._ids(texts)
        rows = np.repeat(np.arange(len(lengths)), lengths)[ids < 0]
        return np.bincount(rows, minlength=len(lengths)).astype(np.float64)

    def to_json(self) -> list[str]:
        """What `from_json` reads: the words."""
        return list(self.words)

    @classmethod
    def from_json(cls, saved: Any) -> Self:
        """Reads what `to_json` gave.

        Args:
            saved: the words.

        Raises:
            ValueError: it is not a list of words in order.
        """
        if not isinstance(saved, list) or not all(isinstance(word, str) for word in saved):
            raise ValueError(f"the saved words are {type(saved).__name__}; expected a list of text")
        terms = cls(saved)
        if not saved or list(terms.words) != saved:
            raise ValueError("there are no saved words, or they are not in order, each once")
        return terms

    def _ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of the words of all texts in a row, -1 if unknown; words per text."""
        tokens = [self.split(text) for text in texts]
        lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        ids = np.fromiter(
            map(self.ids.get, chain.from_iterable(tokens), repeat(-1)),
            dtype=np.int64,
            count=int(lengths.sum()),
        )
        return ids, lengths
