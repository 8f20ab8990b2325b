"""One batch of serialised records as tensors: parse, find what is distinct, pad, mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

import tensorflow as tf

from dssm_tf.data.offsets import MASKED

_STEP = 8

Examples = dict[str, Any]


@dataclass(frozen=True)
class TextShape:
    """Sizes of a text batch: words a text, distinct words, trigrams a word; 0 = as needed."""

    words: int = 0
    distinct_words: int = 0
    ngrams: int = 0


@dataclass(frozen=True)
class Shapes:
    """Sizes that batches are padded to, so that one compiled program serves most of them.

    A batch that does not fit grows by steps of an eighth of the planned size.
    """

    query: TextShape = TextShape()
    titles: TextShape = TextShape()
    distinct_titles: int = 0

    @classmethod
    def of(cls, inputs: dict[str, Any]) -> Shapes:
        """The sizes of a batch."""
        query, titles = (
            TextShape(
                one["tokens"].shape[1], one["word_ngrams"].shape[0], one["word_ngrams"].shape[1]
            )
            for one in (inputs["query"], inputs["titles"])
        )
        return cls(query, titles, inputs["titles"]["tokens"].shape[0])

    def union(self, other: Shapes) -> Shapes:
        """Sizes that hold both."""
        query, titles = (
            TextShape(*map(max, astuple(a), astuple(b)))
            for a, b in ((self.query, other.query), (self.titles, other.titles))
        )
        return Shapes(query, titles, max(self.distinct_titles, other.distinct_titles))

    def with_headroom(self) -> Shapes:
        """A little larger in the sizes that vary from batch to batch, at round numbers."""

        def round_up(size: int) -> int:
            return -(-int(size * 1.1 + 1) // _STEP) * _STEP

        query, titles = (
            TextShape(one.words, round_up(one.distinct_words), one.ngrams)
            for one in (self.query, self.titles)
        )
        return Shapes(query, titles, round_up(self.distinct_titles))


def parse(serialized: tf.Tensor, negatives: int) -> Examples:
    """Parses `(batch,)` serialised examples; titles cut to the clicked one and `negatives`."""
    lengths = tf.io.RaggedFeature.RowLengths
    ragged = tf.io.RaggedFeature
    title_words = [lengths("title_lengths")]
    examples: Examples = tf.io.parse_example(
        serialized,
        {
            "clicks": tf.io.FixedLenFeature([], tf.float32),
            "clicked_ids": ragged(tf.int64),
            "title_ids": ragged(tf.int64),
            "title_clicks": ragged(tf.int64),
            "title_queries": ragged(tf.int64),
            "query_words": ragged(tf.int64),
            "query_ngrams": ragged(tf.int64, partitions=[lengths("query_word_ngrams")]),
            "title_words": ragged(tf.int64, partitions=title_words),
            "title_ngrams": ragged(
                tf.int64, partitions=[*title_words, lengths("title_word_ngrams")]
            ),
        },
    )
    for name in ("title_ids", "title_clicks", "title_queries", "title_words", "title_ngrams"):
        examples[name] = examples[name][:, : 1 + negatives]
    return examples


def to_batch(
    examples: Examples,
    real: tf.Tensor,
    in_batch: bool,
    log_draws: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None,
    logq: float,
    shapes: Shapes,
) -> tuple[dict[str, Any], tf.Tensor]:
    """Inputs and offsets of a batch.

    Args:
        examples: what `parse` returned.
        real: bool `(batch,)`, false for rows that only fill the batch.
        in_batch: whether clicked titles of other rows are candidates.
        log_draws: of (clicks, queries) of titles, the log of how often each is expected among a
            row's candidates; None for no correction.
        logq: strength of that correction.
        shapes: sizes to pad to.

    Returns:
        `inputs` for `Siamese` and `offsets` for `ClickSoftmax`.
    """
    ids: tf.RaggedTensor = examples["title_ids"]
    distinct, index = tf.unique(ids.flat_values)
    count = tf.size(distinct)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(index)), index, count)
    title_index = ids.with_values(index)

    inputs = {
        "query": _text_batch(examples["query_words"], examples["query_ngrams"], shapes.query),
        "titles": _text_batch(
            tf.gather(examples["title_words"].merge_dims(0, 1), first),
            tf.gather(examples["title_ngrams"].merge_dims(0, 1), first),
            shapes.titles,
            shapes.distinct_titles,
        ),
    }
    titles = tf.shape(inputs["titles"]["tokens"])[0]
    correction = tf.zeros([titles])
    if log_draws is not None:
        clicks, queries = (
            tf.gather(examples[name].flat_values, first)
            for name in ("title_clicks", "title_queries")
        )
        correction = _pad(-logq * log_draws(clicks, queries), [titles])

    candidates = title_index.to_tensor()
    present = tf.ones_like(title_index).to_tensor() > 0
    offsets = tf.where(present, tf.gather(correction, candidates), MASKED)
    if in_batch:
        batch = tf.shape(candidates)[0]
        clicked = tf.where(real, candidates[:, 0], titles)  # one past the end is dropped
        times = tf.math.bincount(clicked, minlength=titles + 1, maxlength=titles + 1)[:titles]
        others = tf.where(
            times > 0, tf.math.log(tf.cast(tf.maximum(times, 1), tf.float32)) + correction, MASKED
        )
        mask = _clicked_mask(examples["clicked_ids"], distinct, titles)
        candidates = tf.concat([candidates, tf.tile(tf.range(titles)[None], [batch, 1])], 1)
        offsets = tf.concat([offsets, tf.where(mask, MASKED, others[None])], 1)
    return inputs | {"candidates": candidates}, offsets


def _clicked_mask(clicked: tf.RaggedTensor, distinct: tf.Tensor, titles: tf.Tensor) -> tf.Tensor:
    """Bool `(batch, titles)`: whether the row's query was ever clicked through to the title."""
    order = tf.argsort(distinct)
    ordered = tf.gather(distinct, order)
    place = tf.minimum(tf.searchsorted(ordered, clicked.flat_values), tf.size(ordered) - 1)
    hit = tf.gather(ordered, place) == clicked.flat_values
    rows = tf.boolean_mask(tf.cast(clicked.value_rowids(), tf.int32), hit)
    columns = tf.boolean_mask(tf.gather(order, place), hit)
    shape = tf.stack([tf.cast(clicked.nrows(), tf.int32), titles])
    hits = tf.scatter_nd(tf.stack([rows, columns], 1), tf.ones_like(rows), shape)
    return hits > 0


def _text_batch(
    words: tf.RaggedTensor, ngrams: tf.RaggedTensor, shape: TextShape, texts: int = 0
) -> dict[str, tf.Tensor]:
    """A text batch from word fingerprints `[texts, words]` and trigrams of each word."""
    distinct, index = tf.unique(words.flat_values)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(index)), index, tf.size(distinct))
    flat_ngrams = ngrams.merge_dims(0, 1) if ngrams.ragged_rank > 1 else ngrams
    rows = tf.gather(flat_ngrams, first).to_tensor()
    rows = tf.cast(tf.pad(rows, [[1, 0], [0, 0]]), tf.int32)
    tokens = words.with_values(index + 1).to_tensor()
    sizes = tf.shape(rows)
    return {
        "word_ngrams": _pad(
            rows, [_fit(sizes[0], shape.distinct_words), _fit(sizes[1], shape.ngrams)]
        ),
        "tokens": _pad(
            tokens, [_fit(tf.shape(tokens)[0], texts), _fit(tf.shape(tokens)[1], shape.words)]
        ),
    }


def _fit(needed: tf.Tensor, planned: int) -> tf.Tensor:
    """The planned size, or the next step above it that holds what is needed; at least 1."""
    if not planned:
        return tf.maximum(needed, 1)
    step = max(planned // 8, 1)
    return planned + tf.maximum((needed - planned + step - 1) // step, 0) * step


def _pad(tensor: tf.Tensor, sizes: list[tf.Tensor]) -> tf.Tensor:
    """Pads at the end of each axis with zeros."""
    missing = tf.stack(sizes) - tf.shape(tensor)
    return tf.pad(tensor, tf.stack([tf.zeros_like(missing), missing], 1))
