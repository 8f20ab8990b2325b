"""What the queries of a step say: some words of a title alone, and now and then a typing error."""

from __future__ import annotations

import tensorflow as tf

from dssm_tf.data.texts import SPELLINGS, Texts

_FEWEST, _MOST = 2, 4
_DRAWS = 3


class QueryWords:
    """Words of queries, drawn anew in each pass.

    Of a title that is a query there are two to four words, in their order: nobody types a whole
    title. In a share of all queries the longest word is misspelt.

    Args:
        texts: of the training, made with typing errors if there is such a share.
        typos: the share.

    Call arguments:
        query: int `(rows,)`, numbers of texts; what is above the queries is a title.
        words: ragged int32 `[rows, words]`, theirs.
        chance: float64 `(rows, width)`, uniform in [0, 1).

    Returns:
        Ragged int32 `[rows, words]`.
    """

    def __init__(self, texts: Texts, typos: float) -> None:
        self._texts = texts
        self._typos = typos
        self._letters = texts.ngrams.row_lengths()
        self.width = _DRAWS + int(tf.reduce_max(texts.words.row_lengths()))

    def __call__(
        self, query: tf.Tensor, words: tf.RaggedTensor, chance: tf.Tensor
    ) -> tf.RaggedTensor:
        """See the class."""
        words = words.to_tensor(-1)
        columns = tf.shape(words)[1]
        count, typo, variant = tf.unstack(chance[:, :_DRAWS], axis=1)
        some = _FEWEST + tf.cast(count * (_MOST - _FEWEST + 1), tf.int32)
        most = tf.where(query < self._texts.first_title, columns, some)
        lots = chance[:, _DRAWS : _DRAWS + columns] + tf.cast(words < 0, chance.dtype)
        kept = (tf.argsort(tf.argsort(lots)) < most[:, None]) & (words >= 0)
        if self._typos:
            words = self._misspelt(words, kept, typo < self._typos, variant)
        return tf.ragged.boolean_mask(words, kept)

    def _misspelt(
        self, words: tf.Tensor, kept: tf.Tensor, wanted: tf.Tensor, variant: tf.Tensor
    ) -> tf.Tensor:
        """The words with a variant of the longest that is kept, in the wanted rows."""
        letters = tf.gather(self._letters, tf.maximum(words, 0))
        longest = tf.argmax(tf.where(kept, letters, -1), axis=1, output_type=tf.int32)
        known = len(self._letters) // (1 + SPELLINGS)
        first = known + tf.cast(variant * SPELLINGS, tf.int32)
        chosen = tf.range(tf.shape(words)[1]) == longest[:, None]
        return tf.where(chosen & wanted[:, None], first[:, None] + words * SPELLINGS, words)
