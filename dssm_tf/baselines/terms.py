"""Word counts of texts as sparse matrices, the input of the lexical and topic models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from scipy import sparse

from dssm_tf.baselines.tokens import Tokens
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self


class Terms:
    """A fixed set of words, and the counts of them in any texts.

    Args:
        known: the words; repeats are dropped.

    Attributes:
        words: the words in alphabetical order.
        ids: the index of each word in `words`.

    >>> terms = Terms.from_texts(["red shoe", "Red red hat!"])
    >>> terms.words
    ('hat', 'red', 'shoe')
    >>> terms.count(["red tie red"]).toarray()
    array([[0., 2., 0.]])
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.words: tuple[str, ...] = tuple(sorted(set(known)))
        self.ids: dict[str, int] = {word: index for index, word in enumerate(self.words)}

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Self:
        """The words of the texts."""
        return cls(chain.from_iterable(map(cls.split, texts)))

    @classmethod
    def from_corpus(cls, titles: Sequence[str], name: str) -> Self:
        """The words of the titles.

        Args:
            titles: the corpus.
            name: name of the model, for the error.

        Raises:
            UserError: there is no word in the titles.
        """
        terms = cls.from_texts(titles)
        if not terms:
            raise UserError(
                f"{name} received {len(titles)} titles and no word in them; "
                "it needs a corpus to learn from."
            )
        return terms

    def __len__(self) -> int:
        return len(self.words)

    @staticmethod
    def split(text: str) -> list[str]:
        """The words of a text, known or not, in order."""
        return FOLDED.words(text)

    def tokens(self, texts: Sequence[str]) -> Tokens:
        """The words of texts in order, as ids."""
        return Tokens.from_texts(map(self.split, texts), self.ids)

    def count(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Counts of the known words: float64 `(len(texts), len(self))`, columns in order."""
        return self.tokens(texts).counts
