"""Scores of raw texts by a Keras model that compares words, in TensorFlow ops."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from dssm_tf.model.siamese import Siamese
from dssm_tf.text_features import TextBatch, TextFeatures


def pair_score_function(
    model: Siamese, features: TextFeatures
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function that scores each title for its own query, without the prior.

    Args:
        model: a `Siamese` whose score reads words.
        features: converts texts, with terms.

    Returns:
        A function from queries string `(n,)` or `(1,)` and titles string `(n,)` to scores float32
        `(n,)`. A query is compared with its own titles only, once per distinct query.
    """

    def score(queries: tf.Tensor, titles: tf.Tensor) -> tf.Tensor:
        count = tf.size(titles)
        distinct, row = tf.unique(queries)
        query_of_title = tf.broadcast_to(row, [count])
        query_batch, title_batch = features(distinct), features(titles)

        def add(index: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            rows = tf.cast(tf.where(query_of_title == index)[:, 0], tf.int32)
            query = _select(query_batch, index[None])
            values = model.score_matrix(query, _select(title_batch, rows))[0]
            return index + 1, tf.tensor_scatter_nd_update(scores, rows[:, None], values)

        _, scores = tf.while_loop(
            lambda index, _: index < tf.size(distinct),
            add,
            (0, tf.zeros([count])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
            parallel_iterations=1,
        )
        return scores

    return score


def _select(batch: TextBatch, rows: tf.Tensor) -> TextBatch:
    """The text batch of some of the texts, which has only the distinct words of these texts.

    Args:
        batch: a text batch with one token matrix.
        rows: int32 `(texts,)`, increasing.
    """
    tokens = tf.gather(batch["tokens"], rows)
    words, index = tf.unique(tf.concat([[0], tf.reshape(tokens, [-1])], 0))
    texts = tf.size(batch["tokens"][:, 0])
    # The new index of each text; -1 for texts that are not selected.
    new_text = tf.scatter_nd(rows[:, None], 1 + tf.range(tf.size(rows)), texts[None]) - 1
    # The last pair is padding; its text is the number of texts.
    text, id = tf.unstack(batch["pairs"][:-1], axis=1)
    text = tf.gather(new_text, text)
    is_selected = text >= 0
    pairs = tf.stack([tf.boolean_mask(text, is_selected), tf.boolean_mask(id, is_selected)], 1)
    padding = tf.stack([tf.size(rows), 0])[None]
    return {
        "word_ngrams": tf.gather(batch["word_ngrams"], words),
        "word_idf": tf.gather(batch["word_idf"], words),
        "tokens": tf.reshape(index[1:], tf.shape(tokens)),
        "pairs": tf.concat([pairs, padding], 0),
        "pair_idf": tf.pad(tf.boolean_mask(batch["pair_idf"][:-1], is_selected), [[0, 1]]),
    }
