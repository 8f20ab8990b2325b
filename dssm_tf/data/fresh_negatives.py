"""Negatives drawn from all known titles while training, other ones in every pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dssm_tf.data.batching import Examples
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.schema import Title
from dssm_tf.data.title_pool import TitlePool
from dssm_tf.text.vocabulary import Vocabulary

_SPARE = 4


class FreshNegatives:
    """Draws titles in proportion to `clicks ** alpha`, never one clicked for the query.

    Differs from recorded negatives by being other titles in each pass, and by repeats: titles
    are drawn with replacement, as the expectation over negatives of the papers' loss has it.

    Args:
        titles: of the log and the corpus; those nobody clicked count half a click. Held in
            memory, hashed.
        vocabulary: hashes them.
        alpha: exponent of the draw.
        negatives: titles a query (J); fewer where most of the log was clicked for the query.

    Reference: Palangi et al. 2016, sec. IV; Shen et al. 2014, sec. 3.5.
    """

    def __init__(
        self, titles: Sequence[Title], vocabulary: Vocabulary, alpha: float, negatives: int
    ) -> None:
        self.negatives = negatives
        self._pool = TitlePool(titles, vocabulary)
        weights = np.maximum([title.clicks for title in titles], 0.5) ** alpha
        self._upto = np.cumsum(weights / weights.sum())

    @classmethod
    def of(cls, data: Preprocessed, negatives: int) -> FreshNegatives:
        """Draws from all titles that a preprocessed directory knows."""
        return cls(data.titles, data.vocabulary, data.spec.negative_alpha, negatives)

    def draw(self, rows: int, seed: tf.Tensor) -> tf.Tensor:
        """Places of titles, int32 `(rows, more than negatives)`.

        Args:
            rows: queries.
            seed: int64 `(2,)`; equal seeds, equal draws.
        """
        shape = [rows, 2 * self.negatives + _SPARE]
        uniform = tf.random.stateless_uniform(shape, seed, dtype=tf.float64)
        flat = tf.searchsorted(tf.constant(self._upto), tf.reshape(uniform, [-1]), side="right")
        return tf.minimum(tf.reshape(flat, shape), len(self._upto) - 1)

    def extend(self, examples: Examples, drawn: tf.Tensor) -> Examples:
        """Examples with the first `negatives` of the drawn titles that the query never clicked.

        Args:
            examples: `batch` records, see `to_batch`.
            drawn: int32 `(batch, columns)`, what `draw` returned of these rows.
        """
        return self._pool.extend(examples, drawn, self.negatives)
