"""One batch of serialised records as tensors: parse, find what is distinct, pad, mask."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from dssm_tf.data.clicked_titles import ClickedTitles
from dssm_tf.data.shapes import Part, Shapes, TextShape

Examples = dict[str, Any]
Labels = dict[str, tf.Tensor]


def parse(serialized: tf.Tensor, negatives: int, vocabulary_size: int) -> Examples:
    """Parses `(batch,)` serialised examples; titles cut to the clicked one and `negatives`.

    Raises:
        tf.errors.InvalidArgumentError: a record's counts do not fit each other, or an id is none
            of the vocabulary's; TensorFlow would read past the ends of its lists.
    """
    lengths = tf.io.RaggedFeature.RowLengths
    ragged = partial(tf.io.RaggedFeature, validate=True)
    title_words = [lengths("title_lengths")]
    examples: Examples = tf.io.parse_example(
        serialized,
        {
            "clicks": tf.io.FixedLenFeature([], tf.float32),
            "query_id": tf.io.FixedLenFeature([], tf.int64),
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
    with tf.control_dependencies([_assert_that_it_fits(examples, vocabulary_size)]):
        examples = tf.nest.map_structure(tf.identity, examples, expand_composites=True)
    for name in ("title_ids", "title_clicks", "title_queries", "title_words", "title_ngrams"):
        examples[name] = examples[name][:, : 1 + negatives]
    return examples


def _assert_that_it_fits(examples: Examples, vocabulary_size: int) -> tf.Operation:
    def same(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.size(a) == tf.size(b), lambda: tf.reduce_all(a == b), lambda: False)

    def known(ids: tf.Tensor) -> tf.Tensor:
        return tf.reduce_all((ids >= 1) & (ids <= vocabulary_size))

    titles, words, ngrams = (
        examples[name] for name in ("title_ids", "title_words", "title_ngrams")
    )
    clicks = examples["clicks"]
    fits = [
        tf.reduce_all(titles.row_lengths() >= 1),
        *(
            same(titles.row_splits, examples[name].row_splits)
            for name in ("title_clicks", "title_queries", "title_words", "title_ngrams")
        ),
        same(words.values.row_splits, ngrams.values.row_splits),
        same(examples["query_words"].row_splits, examples["query_ngrams"].row_splits),
        known(examples["query_ngrams"].flat_values),
        known(ngrams.flat_values),
        tf.reduce_all(tf.math.is_finite(clicks) & (clicks >= 0)),
    ]
    return tf.debugging.Assert(tf.reduce_all(fits), ["a record's counts do not fit"])


class ClickedLookup:
    """Finds all titles that were clicked for the queries of a batch.

    Args:
        clicked: of the whole log; its tensors are made here, not where a data set is traced.
    """

    def __init__(self, clicked: ClickedTitles) -> None:
        self._queries = tf.constant(clicked.queries)
        self._splits = tf.constant(clicked.splits)
        self._titles = tf.constant(clicked.titles)

    def __call__(self, examples: Examples) -> tf.RaggedTensor:
        """Title ids `[batch, clicked]`: the record's own first, then those of its query.

        A title that is a query for itself is no pair of the log, but its own all the same.
        """
        ids = examples["query_id"]
        last = tf.size(self._queries) - 1
        place = tf.minimum(tf.searchsorted(self._queries, ids), last)
        start, end = tf.gather(self._splits, place), tf.gather(self._splits, place + 1)
        known = tf.gather(self._queries, place) == ids
        rows = tf.ragged.range(start, tf.where(known, end, start), row_splits_dtype=tf.int32)
        rows = rows.with_values(tf.gather(self._titles, rows.flat_values))
        return tf.concat([examples["title_ids"][:, :1], rows], axis=1)


def to_batch(
    examples: Examples,
    real: tf.Tensor,
    in_batch: bool,
    log_draws: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None,
    logq: float,
    shapes: Shapes,
    joint: bool = False,
) -> tuple[dict[str, Any], Labels]:
    """Inputs and labels of a batch.

    Args:
        examples: what `parse` returned, and `clicked_ids`, what `ClickedLookup` finds for it.
        real: bool `(batch,)`, false for rows that only fill the batch.
        in_batch: whether clicked titles of other rows are candidates.
        log_draws: of (clicks, queries) of titles, the log of how often each is expected among a
            row's candidates; None for no correction.
        logq: strength of that correction.
        shapes: sizes to pad to.
        joint: whether one text batch holds the queries and, below them, the titles.

    Returns:
        `inputs` for `Siamese` and labels for a `RankingLoss`.
    """
    ids: tf.RaggedTensor = examples["title_ids"]
    flat = tf.range(tf.size(ids.flat_values))
    others = ids.with_values(flat)[:, 1:]
    order = tf.concat([tf.cast(ids.row_starts(), tf.int32), others.flat_values], 0)
    # Clicked titles stand first, so that in-batch candidates are the first of the distinct ones.
    distinct, index = tf.unique(tf.gather(ids.flat_values, order))
    count, rows = tf.size(distinct), tf.size(real)
    first = tf.gather(order, tf.math.unsorted_segment_min(flat, index, count))
    title_index = tf.concat([index[:rows, None], others.with_values(index[rows:])], 1)

    titles = _fit(count, shapes.distinct_titles)
    query_words, query_ngrams = examples["query_words"], examples["query_ngrams"]
    title_words, title_ngrams = (
        tf.gather(examples[name].merge_dims(0, 1), first)
        for name in ("title_words", "title_ngrams")
    )
    if joint:
        # Other fingerprints: a word of a query and the same of a title stay two words, for each
        # of which dropout draws.
        title_words = title_words.with_flat_values(tf.bitwise.invert(title_words.flat_values))
        words = tf.concat([query_words, title_words], 0)
        ngrams = tf.concat([query_ngrams, title_ngrams], 0)
        inputs = {"texts": text_batch(words, ngrams, shapes.texts, tf.size(real) + titles)}
    else:
        inputs = {
            "query": text_batch(query_words, query_ngrams, shapes.query, tf.size(real)),
            "titles": text_batch(title_words, title_ngrams, shapes.titles, titles),
        }
    correction = tf.zeros([titles])
    if log_draws is not None:
        clicks, queries = (
            tf.gather(examples[name].flat_values, first)
            for name in ("title_clicks", "title_queries")
        )
        correction = _pad(-logq * log_draws(clicks, queries), [titles])

    candidates = title_index.to_tensor()
    mask = tf.ones_like(title_index).to_tensor() > 0
    corrections = tf.gather(correction, candidates)
    if in_batch:
        # At most one a row; as many in every batch where shapes are fixed.
        size = (
            tf.minimum(rows, titles) if shapes.distinct_titles else tf.reduce_max(index[:rows]) + 1
        )
        clicked = tf.where(real, candidates[:, 0], size)  # one past the end is dropped
        times = tf.math.bincount(clicked, minlength=size + 1, maxlength=size + 1)[:size]
        counted = tf.math.log(tf.cast(tf.maximum(times, 1), tf.float32)) + correction[:size]
        own = _clicked_mask(examples["clicked_ids"], distinct[:size], size)
        candidates = tf.concat([candidates, tf.tile(tf.range(size)[None], [rows, 1])], 1)
        corrections = tf.concat([corrections, tf.tile(counted[None], [rows, 1])], 1)
        mask = tf.concat([mask, (times > 0)[None] & ~own], 1)
    columns = tf.shape(candidates)[1]
    targets = tf.tile(tf.one_hot([0], columns), [tf.shape(candidates)[0], 1])
    labels = {"mask": mask, "correction": corrections, "targets": targets}
    return inputs | {"candidates": candidates}, labels


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


def text_batch(
    words: tf.RaggedTensor, ngrams: tf.RaggedTensor, shape: TextShape, texts: tf.Tensor
) -> dict[str, Any]:
    """A text batch of what records hold.

    Args:
        words: fingerprints `[texts, words]`; equal words are one.
        ngrams: trigram ids `[texts, words, trigrams]`.
        shape: parts to lay it out in.
        texts: number of texts to pad to.
    """
    distinct, index = tf.unique(words.flat_values)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(index)), index, tf.size(distinct))
    flat_ngrams = ngrams.merge_dims(0, 1)
    # Row 0 has no trigrams: what padding reads.
    lengths = tf.gather(flat_ngrams.row_lengths(), first)
    word_rows = tf.RaggedTensor.from_row_lengths(
        tf.cast(tf.gather(flat_ngrams, first).flat_values, tf.int32),
        tf.pad(lengths, [[1, 0]]),
        validate=False,
    )
    word_ngrams, place = _in_parts(word_rows, shape.words)
    tokens = words.with_values(tf.gather(place, index + 1))
    if len(shape.texts) > 1:
        parts, rows = _in_parts(tokens, shape.texts)
        rows = _pad(rows, [texts])
        return {"word_ngrams": word_ngrams, "tokens": parts, "rows": rows}
    # A text's row is its place, so the rows are padded to the texts that are wanted.
    (part,) = shape.texts or (Part(0),)
    matrix = _padded(tokens, part._replace(rows=min(part.rows, 1)))
    matrix = _pad(matrix, [texts, tf.shape(matrix)[1]])
    return {"word_ngrams": word_ngrams, "tokens": matrix}


def _in_parts(ragged: tf.RaggedTensor, parts: tuple[Part, ...]) -> tuple[Any, tf.Tensor]:
    """Rows padded with zeros: a matrix, or one a part; and where each row went.

    The places are int32 `(rows,)`, in the parts one below another.
    """
    if len(parts) < 2:
        (part,) = parts or (Part(0),)
        return _padded(ragged, part), tf.range(ragged.nrows(out_type=tf.int32))
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    part_of = tf.searchsorted([part.columns for part in parts[:-1]], lengths)
    matrices, order, places = [], [], []
    start = 0
    for number, part in enumerate(parts):
        chosen = tf.cast(tf.where(part_of == number)[:, 0], tf.int32)
        matrices.append(_padded(tf.gather(ragged, chosen), part))
        order.append(chosen)
        places.append(start + tf.range(tf.size(chosen)))
        start += tf.shape(matrices[-1])[0]
    rank = tf.math.invert_permutation(tf.concat(order, 0))
    return tuple(matrices), tf.gather(tf.concat(places, 0), rank)


def _padded(ragged: tf.RaggedTensor, part: Part) -> tf.Tensor:
    """A matrix of the part's size where it is fixed, else as small as can be."""
    matrix = ragged.to_tensor()
    rows, columns = tf.unstack(tf.shape(matrix))
    return _pad(matrix, [_fit(rows, part.rows), _fit(columns, part.columns if part.rows else 0)])


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
