"""Texts as vectors over the most frequent words: what DSE, SSI and PSI read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from dssm_tf.baselines.terms import Terms
from dssm_tf.common.errors import UserError
from dssm_tf.text.rules import FOLDED

if TYPE_CHECKING:
    from typing_extensions import Self

_WEIGHTINGS = ("binary", "tfidf")
_NORMALIZATIONS = ("length", "largest", "none")


class BagOfWords:
    """Counts the most frequent words of a text, and nothing else of it.

    A word counts as frequent by the number of texts that hold it, not by its occurrences. Words
    outside a window of that number can be left out first: those in nearly every text tell
    nothing apart, those in a few generalise badly. Differs from scikit-learn's vectorisers by
    its words (those of `FOLDED`) and by the fixed order of equally frequent ones.

    Args:
        size: words to keep, the most frequent of the window; None keeps the whole window.
        fewest: texts that must hold a word, at least 1.
        most: texts that may hold a word; None for any number.
        weighting: `"binary"`, 1 for a word the text holds; or `"tfidf"`, its count in the text
            times `log(texts / texts with the word)`, so a word of every text weighs 0.
        normalization: `"length"` divides a vector by its Euclidean length, so that a dot product
            is the cosine; `"largest"` by its largest entry, so that it fills the range from 0 to
            1 of an RBM's units; `"none"` leaves it. Without a kept word a vector stays zero.

    Attributes:
        words: the kept words, most frequent first, equally frequent ones in alphabetical order.

    Raises:
        ValueError: a size or window that no word could meet, or an unknown weighting or
            normalization.

    Reference: Wu et al. 2014, sec. 2 and 4.2-4.3.
    """

    words: tuple[str, ...]

    def __init__(
        self,
        size: int | None = 1000,
        *,
        fewest: int = 1,
        most: int | None = None,
        weighting: str = "tfidf",
        normalization: str = "length",
    ) -> None:
        if size is not None and size < 1:
            raise ValueError(f"BagOfWords received size={size}; expected at least 1, or None.")
        if fewest < 1 or (most is not None and most < fewest):
            raise ValueError(
                f"BagOfWords received fewest={fewest}, most={most}; "
                "expected 1 <= fewest <= most, or most=None."
            )
        for name, value, allowed in (
            ("weighting", weighting, _WEIGHTINGS),
            ("normalization", normalization, _NORMALIZATIONS),
        ):
            if value not in allowed:
                raise ValueError(
                    f"BagOfWords received {name}={value!r}; expected one of {', '.join(allowed)}."
                )
        self.size = size
        self.fewest = fewest
        self.most = most
        self.weighting = weighting
        self.normalization = normalization

    def fit(self, texts: Iterable[str]) -> Self:
        """Chooses the words, and for TF-IDF their weights.

        Raises:
            UserError: no word is left.
        """
        held: Counter[str] = Counter()
        number = 0
        for text in texts:
            number += 1
            held.update(set(FOLDED.words(text)))
        window = [
            (word, count)
            for word, count in held.items()
            if count >= self.fewest and (self.most is None or count <= self.most)
        ]
        if not window:
            limit = "any number" if self.most is None else f"{self.most}"
            raise UserError(
                f"none of the {len(held)} words of {number} texts is held by {self.fewest} to "
                f"{limit} of them; give texts with words, or a wider window."
            )
        window.sort(key=lambda entry: (-entry[1], entry[0]))
        kept = window[: self.size]
        return self._keep([word for word, _ in kept], [count for _, count in kept], number)

    def _keep(self, words: Sequence[str], counts: Sequence[int], texts: int) -> Self:
        self.words = tuple(words)
        self._counts = list(counts)
        self._texts = texts
        self._rarity = np.log(texts / np.array(counts, dtype=np.float64))
        self._terms = Terms(words)
        self._places = [self._terms.ids[word] for word in words]
        return self

    def transform(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Vectors of texts, float32 `(len(texts), len(words))`; unknown words count nothing."""
        found = self._terms.count(texts)[:, self._places]
        found.sort_indices()
        if self.weighting == "binary":
            found.data[:] = 1
        else:
            found.data *= self._rarity[found.indices]
        if self.normalization != "none":
            if self.normalization == "length":
                scale = np.sqrt(np.asarray(found.multiply(found).sum(axis=1)).ravel())
            else:
                scale = found.max(axis=1).toarray().ravel()
            found.data /= np.repeat(np.where(scale > 0, scale, 1.0), np.diff(found.indptr))
        return found.astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Settings and what was fitted, as values JSON can hold."""
        return {
            "size": self.size,
            "fewest": self.fewest,
            "most": self.most,
            "weighting": self.weighting,
            "normalization": self.normalization,
            "texts": self._texts,
            "counts": self._counts,
            "words": list(self.words),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Self:
        """The inverse of `to_json`.

        Args:
            saved: what it gave.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        fitted = {name: saved[name] for name in ("words", "counts", "texts")}
        bag = cls(**{name: value for name, value in saved.items() if name not in fitted})
        words, counts, texts = fitted.values()
        if not words or len(counts) != len(words) or len(set(words)) != len(words):
            raise ValueError("words and counts do not fit, or a word stands there twice")
        if not all(type(count) is int and 1 <= count <= texts for count in counts):
            raise ValueError(f"a count is no whole number from 1 to the number of texts, {texts}")
        return bag._keep(**fitted)
