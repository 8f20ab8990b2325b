"""Texts as vectors over the most frequent words, the input of DSE, SSI and PSI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from pydantic.dataclasses import dataclass
from scipy import sparse

from dssm_tf.baselines.base import Floats
from dssm_tf.baselines.terms import Terms
from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import PositiveInt

if TYPE_CHECKING:
    from typing_extensions import Self


Normalization: TypeAlias = Literal["length", "largest", "none"]


@dataclass
class BagOfWords:
    """Counts the most frequent words of a text.

    The frequency of a word is the number of texts that contain it, not of its occurrences. Words
    with fewer than `min_texts` or more than `max_texts` are left out first: those in nearly every
    text distinguish nothing, those in a few generalize badly. Differs from scikit-learn's
    vectorizers by its words (those of `FOLDED`) and by the fixed order of equally frequent ones.

    Args:
        size: words to keep, the most frequent of those that are left; None keeps all of them.
        min_texts: smallest number of texts that contain a word.
        max_texts: largest number of texts that contain a word; None for any number.
        weighting: `"binary"`, 1 for a word of the text; or `"tfidf"`, its count in the text
            times `log(texts / texts with the word)`, so a word of every text weighs 0.
        normalization: `"length"` divides a vector by its Euclidean length, so that a dot product
            is the cosine; `"largest"` by its largest entry, so that it fills the range from 0 to
            1 of an RBM's units; `"none"` leaves it. A text without these words has the zero
            vector.

    Attributes:
        words: the chosen words, most frequent first, equally frequent ones in alphabetical order.
        idf: `log(texts / texts with the word)` of each, in nats.

    Raises:
        ValueError: an argument is out of its range.

    Reference: Wu et al. 2014, sec. 2 and 4.2-4.3.
    """

    size: PositiveInt | None = 1000
    min_texts: PositiveInt = 1
    max_texts: PositiveInt | None = None
    weighting: Literal["binary", "tfidf"] = "tfidf"
    normalization: Normalization = "length"

    def fit(self, texts: Sequence[str]) -> Self:
        """Chooses the words, and for TF-IDF their weights.

        Raises:
            UserError: no word is left.
        """
        terms = Terms.from_texts(texts)
        frequency = np.bincount(terms.count(texts).indices, minlength=len(terms))
        max_texts = len(texts) if self.max_texts is None else self.max_texts
        order = np.argsort(-frequency, kind="stable")
        allowed = (frequency[order] >= self.min_texts) & (frequency[order] <= max_texts)
        chosen = order[allowed][: self.size]
        if not len(chosen):
            raise UserError(
                f"none of the {len(terms)} words of {len(texts)} texts is in {self.min_texts} to "
                f"{max_texts} of them; give texts with words, a lower min_texts or a higher "
                "max_texts."
            )
        return self.use(
            [terms.words[word] for word in chosen], np.log(len(texts) / frequency[chosen])
        )

    def use(self, words: Sequence[str], idf: Floats) -> Self:
        """Uses words that were chosen before, with their `idf`."""
        self.words, self.idf = tuple(words), idf
        self._terms = Terms(words)
        self._columns = [self._terms.ids[word] for word in words]
        return self

    def transform(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Vectors of texts, float32 `(len(texts), len(words))`; unknown words are left out."""
        bags = self._terms.count(texts)[:, self._columns]
        bags.sort_indices()
        if self.weighting == "binary":
            bags.data[:] = 1
        else:
            bags.data *= self.idf[bags.indices]
        if self.normalization != "none":
            if self.normalization == "length":
                scale = np.sqrt(np.asarray(bags.multiply(bags).sum(axis=1)).ravel())
            else:
                scale = bags.max(axis=1).toarray().ravel()
            bags.data /= np.repeat(np.where(scale > 0, scale, 1.0), np.diff(bags.indptr))
        return bags.astype(np.float32)
