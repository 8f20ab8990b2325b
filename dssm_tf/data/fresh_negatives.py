"""Negatives drawn from all known titles while training, other ones in every pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dssm_tf.data.batching import Examples, parse
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.schema import Title
from dssm_tf.text.vocabulary import Vocabulary

_SPARE = 4
_A_RECORD = 10_000  # titles; a message of all would grow beyond what its format allows
_COLUMNS = ("title_ids", "title_clicks", "title_queries", "title_words", "title_ngrams")


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
        # The titles as those of records: parsed the way the records are.
        parts = [titles[start : start + _A_RECORD] for start in range(0, len(titles), _A_RECORD)]
        encode = RecordEncoder(vocabulary).encode
        size = vocabulary.size
        records = [tf.constant([encode("", part, 1.0)]) for part in parts]
        parsed = [
            parse(record, len(part), size) for record, part in zip(records, parts, strict=True)
        ]
        self._pool = {name: tf.concat([one[name][0] for one in parsed], 0) for name in _COLUMNS}
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
            drawn: int32 `(batch, columns)`.
        """
        ids = tf.gather(self._pool["title_ids"], drawn)
        clicked = examples["clicked_ids"]
        same = ids[:, :, None] == clicked.to_tensor()[:, None, :]
        known = tf.sequence_mask(clicked.row_lengths())[:, None, :]
        allowed = ~tf.reduce_any(same & known, axis=2)
        kept = tf.ragged.boolean_mask(drawn, allowed)[:, : self.negatives]
        kept = kept.with_row_splits_dtype(clicked.row_splits.dtype)
        found = dict(examples)
        for name in _COLUMNS:
            new = kept.with_values(tf.gather(self._pool[name], kept.flat_values))
            found[name] = tf.concat([examples[name], new], axis=1)
        return found
