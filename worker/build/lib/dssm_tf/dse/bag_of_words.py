"""Texts as vectors over the most frequent words: what DSE, SSI and PSI read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic.dataclasses import dataclass
from scipy import sparse

from dssm_tf.baselines.base import Count, Floats
from dssm_tf.baselines.terms import Terms
from dssm_tf.common.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class BagOfWords:
    """Counts the most frequent words of a text, and nothing else of it.

    A word counts as frequent by the number of texts that hold it, not by its occurrences. Words
    outside a window of that number can be left out first: those in nearly every text tell
    nothing apart, those in a few generalise badly. Differs from scikit-learn's vectorisers by
    its words (those of `FOLDED`) and by the fixed order of equally frequent ones.

    Args:
        size: words to keep, the most frequent of the window; None keeps the whole window.
        fewest: texts that must hold a word.
        most: texts that may hold a word; None for any number.
        weighting: `"binary"`, 1 for a word the text holds; or `"tfidf"`, its count in the text
            times `log(texts / texts with the word)`, so a word of every text weighs 0.
        normalization: `"length"` divides a vector by its Euclidean length, so that a dot product
            is the cosine; `"largest"` by its largest entry, so that it fills the range from 0 to
            1 of an RBM's units; `"none"` leaves it. Without a kept word a vector stays zero.

    Attributes:
        words: the kept words, most frequent first, equally frequent ones in alphabetical order.
        idf: `log(texts / texts with the word)` of each, in nats.

    Raises:
        ValueError: an argument is out of its range.

    Reference: Wu et al. 2014, sec. 2 and 4.2-4.3.
    """

    size: Count | None = 1000
    fewest: Count = 1
    most: Count | None = None
    weighting: Literal["binary", "tfidf"] = "tfidf"
    normalization: Literal["length", "largest", "none"] = "length"

    def fit(self, texts: Sequence[str]) -> Self:
        """Chooses the words, and for TF-IDF their weights.

        Raises:
            UserError: no word is left.
        """
        terms = Terms.of(texts)
        holders = np.bincount(terms.count(texts).indices, minlength=len(terms))
        most = len(texts) if self.most is None else self.most
        order = np.argsort(-holders, kind="stable")
        chosen = order[(holders[order] >= self.fewest) & (holders[order] <= most)][: self.size]
        if not len(chosen):
            raise UserError(
                f"none of the {len(terms)} words of {len(texts)} texts is held by {self.fewest} to "
                f"{most} of them; give texts with words, or a wider window."
            )
        return self.keep(
            [terms.words[word] for word in chosen], np.log(len(texts) / holders[chosen])
        )

    def keep(self, words: Sequence[str], idf: Floats) -> Self:
        """Takes over words that were chosen before, and their `idf`."""
        self.words, self.idf = tuple(words), idf
        self._terms = Terms(words)
        self._columns = [self._terms.ids[word] for word in words]
        return self

    def transform(self, texts: Sequence[str]) -> sparse.csr_matrix:
        """Vectors of texts, float32 `(len(texts), len(words))`; unknown words count nothing."""
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
