"""Titles held hashed in memory, to stand among the titles of records as further negatives."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from dssm_tf.data.batching import Examples, parse
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.schema import Title
from dssm_tf.text.vocabulary import Vocabulary

_A_RECORD = 10_000  # titles; a message of all would grow beyond what its format allows
_COLUMNS = ("title_ids", "title_clicks", "title_queries", "title_words", "title_ngrams")


class TitlePool:
    """Titles as those of records: parsed the way the records are.

    Args:
        titles: of the log and the corpus.
        vocabulary: hashes them.
    """

    def __init__(self, titles: Sequence[Title], vocabulary: Vocabulary) -> None:
        parts = [titles[start : start + _A_RECORD] for start in range(0, len(titles), _A_RECORD)]
        encode = RecordEncoder(vocabulary).encode
        size = vocabulary.size
        records = [tf.constant([encode("", part, 1.0)]) for part in parts]
        parsed = [
            parse(record, len(part), size) for record, part in zip(records, parts, strict=True)
        ]
        self._titles = {name: tf.concat([one[name][0] for one in parsed], 0) for name in _COLUMNS}

    def extend(self, examples: Examples, drawn: tf.Tensor, count: int) -> Examples:
        """Examples with the first `count` of the drawn titles that the query never clicked.

        Args:
            examples: `batch` records, see `to_batch`.
            drawn: places in the pool, int32 `(batch, columns)`; below 0 for none.
            count: at most.
        """
        ids = tf.gather(self._titles["title_ids"], tf.maximum(drawn, 0))
        clicked = examples["clicked_ids"]
        same = ids[:, :, None] == clicked.to_tensor()[:, None, :]
        known = tf.sequence_mask(clicked.row_lengths())[:, None, :]
        allowed = (drawn >= 0) & ~tf.reduce_any(same & known, axis=2)
        kept = tf.ragged.boolean_mask(drawn, allowed)[:, :count]
        kept = kept.with_row_splits_dtype(clicked.row_splits.dtype)
        found = dict(examples)
        for name in _COLUMNS:
            new = kept.with_values(tf.gather(self._titles[name], kept.flat_values))
            found[name] = tf.concat([examples[name], new], axis=1)
        return found
