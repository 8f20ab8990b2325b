"""Training rows as batches for `Siamese`: candidates, labels, weights.

A batch depends on the seed, the epoch and the step only. Workers therefore need not communicate,
and a run can resume within an epoch. The batch has everything that depends on the data: the
candidate titles, which of them are masked because they were clicked for the query, how often each
was drawn, and the weight of each click. So the model only compares texts, and the loss only
compares scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.data.query_words import QueryWords
from dssm_tf.data.rows import TrainingRows
from dssm_tf.data.texts import (
    LENGTH_QUANTILES,
    WORD_SCORE_LENGTH_QUANTILES,
    BatchShapes,
    TextTensors,
    group_pairs,
    plan_shapes,
    round_up,
    text_batch,
)

_SPARE = 4  # additional draws of fresh negatives, because clicked titles are left out
# Added to a step's key, so that each purpose has its own random numbers.
_FRESH, _MINED, _WORDS, _LETTERS = (np.array([0, purpose << 40]) for purpose in range(4))
_POOL = np.array([0, 1 << 40])  # added to an epoch's key
_SHAPE_SAMPLES = 24
"""Number of batches whose sizes `Batches.with_shapes` reads."""
_SEED_STRIDE = 8  # above the number of sources
_Uniform = Callable[[NDArray[np.int64], int], tf.Tensor]
"""Uniform random numbers `(rows, width)` of a replica's rows, from a purpose and a width."""


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of several sources of rows. Each batch is of one source; sources alternate evenly.

    The rows of a step do not depend on the number of workers and replicas. Only in-batch negatives
    do: they are those of the replica's rows.

    Args:
        texts: the texts that indices refer to.
        sources: the rows of each source by split: `train`, `validation`, and `always` for rows that
            are used with every choice of splits.
        fresh: number of negatives per click that each epoch draws anew from all titles.
        draw_probabilities: probability of each title among the fresh negatives, `(titles,)`.
        in_batch: whether the other clicked titles of the replica's batch are negatives too.
        joint: whether queries and titles are in one text batch, for a shared tower.
        typos: fraction of the queries with a typing error; see `QueryWords`.
        neighboring_words: fraction of the titles' queries with neighboring words; see `QueryWords`.
        letters_only: fraction of the words whose own row is left out in a step.
        mined: query indices and title indices of mined hard negatives, `(pairs, 2)`.
        mined_count: hard negatives per query and epoch. Clicked titles are left out.
        held_out: word indices of the queries that are left out of training; see `QueryWords`.
        shapes: sizes to pad to.
        splits: the splits of the sources that are read.
    """

    texts: TextTensors
    sources: tuple[Mapping[str, TrainingRows], ...]
    fresh: int = 0
    draw_probabilities: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    in_batch: bool = True
    joint: bool = False
    typos: float = 0.0
    neighboring_words: float = 0.0
    letters_only: float = 0.0
    mined: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    mined_count: int = 0
    held_out: Sequence[Sequence[int]] = ()
    shapes: BatchShapes = field(default_factory=BatchShapes)
    splits: tuple[str, ...] = ("train", "always")

    def with_splits(self, splits: Iterable[str]) -> Batches:
        """The batches of other splits: of `train`, or of `train` and `validation`."""
        return replace(self, splits=(*splits, "always"))

    def validation(self) -> Batches | None:
        """The batches of the validation split, with negatives as in training; None if empty."""
        batches = replace(self, splits=("validation",))
        return batches if batches.steps else None

    @cached_property
    def rows(self) -> tuple[TrainingRows, ...]:
        """The rows of each source that has any, with rescaled weights."""
        by_source = (
            [source[split] for split in self.splits if split in source] for source in self.sources
        )
        joined = [TrainingRows.concatenate(splits) for splits in by_source if splits]
        return tuple(rows.rescaled() for rows in joined if rows.per_epoch)

    @property
    def steps(self) -> int:
        """Batches per epoch."""
        return sum(rows.steps for rows in self.rows)

    def with_shapes(self, fixed: bool = False, replicas: int = 1) -> Batches:
        """The batches, padded to sizes that suit the first few batches of a shuffled epoch.

        Args:
            fixed: whether the number of rows is fixed, as compiled programs need it.
            replicas: devices that share a step.
        """
        # In-batch negatives add candidates, but no texts to a batch.
        plain = replace(self, in_batch=False, shapes=BatchShapes())
        makers = [plain._batch_maker(source, 0, replicas) for source in range(len(plain.rows))]
        keys = plain._schedule(0, 1, replicas)[:_SHAPE_SAMPLES]
        with tf.device("CPU"):  # eager: tracing the graph of a dataset takes longer
            sample = [makers[key[1]](tf.constant(key))[0] for key in keys]
        quantiles = LENGTH_QUANTILES if self.texts.idf is None else WORD_SCORE_LENGTH_QUANTILES
        return replace(self, shapes=plan_shapes(sample, fixed, quantiles))

    def epochs(
        self,
        seed: int | None,
        start: int,
        stop: int,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
        step: int = 0,
    ) -> tf.data.Dataset:
        """Epochs `start` to `stop`; the order of rows depends on the seed and the epoch only.

        Args:
            seed: seed of the shuffling; None keeps the order of the rows.
            start: the first epoch.
            stop: the epoch after the last one.
            worker: index of this process among those that share each step.
            workers: number of processes.
            replicas: devices of this process. Each step yields one element per replica.
            step: step of the first epoch to begin at.

        Returns:
            Elements `(inputs, labels, weights)`: a dict with the text batches `query` and
            `titles`, or `texts` for both, `candidates` int32 `(batch, columns)`, and with in-batch
            negatives `in_batch`, see `Siamese`; labels, see `RankingLoss`, of one row for clicks;
            weights float32 `(batch,)`. Rows that pad the last batch have weight 0, and their titles
            are not candidates of other rows.
        """
        keys = self._schedule(start, stop, replicas)[step * replicas :]
        keys[:, 3] += worker * replicas
        sources, datasets = keys[:, 1], []
        for source in range(len(self.rows)):
            steps = tf.data.Dataset.from_tensor_slices(keys[sources == source])
            make_batch = tf.autograph.experimental.do_not_convert(
                self._batch_maker(source, seed, workers * replicas)
            )
            datasets.append(
                steps.map(make_batch, num_parallel_calls=_parallel_batches(), deterministic=True)
            )
        turn = tf.data.Dataset.from_tensor_slices(sources)
        alternating = tf.data.Dataset.choose_from_datasets(datasets, turn)
        return alternating.prefetch(replicas).with_options(WITHOUT_AUTOTUNING)

    def _schedule(self, start: int, stop: int, replicas: int) -> NDArray[np.int64]:
        """The elements of some epochs as `(epoch, source, step, replica)`, `(elements, 4)`."""
        # Steps of all sources in the order of their progress through the epoch.
        turns = sorted(
            ((step + 0.5) / rows.steps, source, step)
            for source, rows in enumerate(self.rows)
            for step in range(rows.steps)
        )
        steps = np.tile(np.array(turns)[:, 1:].astype(np.int64), (stop - start, 1))
        epoch = np.repeat(np.arange(start, stop), len(turns))
        elements = np.column_stack([epoch, steps]).repeat(replicas, axis=0)
        return np.column_stack([elements, np.arange(len(elements)) % replicas])

    def _batch_maker(
        self, source: int, seed: int | None, replicas: int
    ) -> Callable[[tf.Tensor], tuple[Any, Any, tf.Tensor]]:
        """A function of `(epoch, source, step, replica)`, which makes the replica's batch.

        Args:
            source: index in `rows`.
            seed: seed of the shuffling; None keeps the order of the rows.
            replicas: devices that share a step, over all processes.
        """
        rows = self.rows[source]
        replica_size, count = rows.batch_size // replicas, rows.per_epoch
        before_pool = count - rows.pool_sample
        columns = (rows.query, rows.titles, rows.weights, rows.targets)
        tensors = [tf.constant(column) for column in columns if column is not None]
        is_clicks, shuffle = rows.targets is None, tf.random.experimental.index_shuffle
        query_words = QueryWords(self.texts, self.typos, self.neighboring_words, self.held_out)
        draw_negatives = self._make_draw_negatives()

        def make_batch(element: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
            epoch, _, step, replica = tf.unstack(element)
            first = replica * replica_size
            index = step * rows.batch_size + first + tf.range(replica_size, dtype=tf.int64)
            # Padding rows of the last step repeat the first rows.
            is_real, index = index < count, index % count
            if seed is not None:
                key = tf.stack([tf.constant(seed * _SEED_STRIDE + source, tf.int64), epoch])
                index = shuffle(index, key, count - 1)
                if rows.pool:
                    in_pool = tf.maximum(index - before_pool, 0)
                    in_pool = shuffle(in_pool, key + _POOL, rows.pool - 1)
                    index = tf.where(index < before_pool, index, before_pool + in_pool)
            key = tf.stack([tf.constant(seed or 0, tf.int64), epoch * rows.steps + step])

            def uniform(purpose: NDArray[np.int64], width: int) -> tf.Tensor:
                # Drawn for the whole step, so that the numbers do not depend on the replicas.
                shape = [rows.batch_size, width]
                random = tf.random.stateless_uniform(shape, key + purpose, dtype=tf.float64)
                return random[first : first + replica_size]

            query, titles, weights, *targets = (tf.gather(column, index) for column in tensors)
            if is_clicks:
                titles = tf.concat([titles, *draw_negatives(query, uniform)], 1)
            words = tf.gather(self.texts.words, query)
            if seed is not None and (rows.pool or self.typos):
                words = query_words(query, words, uniform(_WORDS, query_words.width))
            letters_only_mask = None
            if seed is not None and self.texts.has_own_row is not None:
                random = tf.random.stateless_uniform(
                    [len(self.texts.has_own_row)], key + _LETTERS, dtype=tf.float32
                )
                letters_only_mask = self.texts.has_own_row & (random < self.letters_only)
            inputs, labels = self._batch(query, words, titles, targets, is_real, letters_only_mask)
            if len(self.sources) > 1:
                labels["source"] = tf.fill([replica_size], rows.source)
            return inputs, labels, tf.where(is_real, weights, 0.0)

        return make_batch

    def _make_draw_negatives(self) -> Callable[[tf.Tensor, _Uniform], Iterator[tf.Tensor]]:
        """A function that draws fresh and mined negatives, each `(rows, negatives)`."""
        cumulative = tf.constant(np.cumsum(self.draw_probabilities))
        mined = group_pairs(self.mined, self.texts.words.nrows())
        width = int(tf.reduce_max(mined.row_lengths()))

        def draw_negatives(query: tf.Tensor, uniform: _Uniform) -> Iterator[tf.Tensor]:
            if self.fresh:
                random = uniform(_FRESH, 2 * self.fresh + _SPARE)  # more than needed
                titles = tf.searchsorted(cumulative, tf.reshape(random, [-1]), side="right")
                titles = tf.minimum(tf.reshape(titles, tf.shape(random)), len(cumulative) - 1)
                yield self._first_unclicked(query, titles, self.fresh)
            if width:
                titles = tf.gather(mined, query).to_tensor(-1, shape=[None, width])
                order = tf.argsort(uniform(_MINED, width), direction="DESCENDING")
                titles = tf.gather(titles, order, batch_dims=1)
                yield self._first_unclicked(query, titles, self.mined_count)

        return draw_negatives

    def _first_unclicked(self, query: tf.Tensor, titles: tf.Tensor, count: int) -> tf.Tensor:
        """The first `count` titles of each row that were not clicked for its query; -1 pads."""
        clicked = tf.gather(self.texts.clicked, query)
        stride = tf.constant(1 << 32, tf.int64)
        # Pairs of a row and a title, as one number. Those of clicks are increasing.
        clicked_pairs = clicked.value_rowids() * stride + tf.cast(clicked.values, tf.int64)
        rows = tf.range(tf.size(query, tf.int64))[:, None]
        pairs = tf.reshape(rows * stride + tf.cast(titles, tf.int64), [-1])
        index = tf.minimum(tf.searchsorted(clicked_pairs, pairs), tf.size(clicked_pairs) - 1)
        is_clicked = tf.reshape(tf.gather(clicked_pairs, index) == pairs, tf.shape(titles))
        unclicked = tf.ragged.boolean_mask(titles, ~is_clicked & (titles >= 0))[:, :count]
        return unclicked.to_tensor(-1, shape=[None, count])

    def _batch(
        self,
        query: tf.Tensor,
        words: tf.RaggedTensor,
        titles: tf.Tensor,
        targets: list[tf.Tensor],
        is_real: tf.Tensor,
        letters_only_mask: tf.Tensor | None,
    ) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
        """Inputs for `Siamese` and labels for a `RankingLoss`.

        Args:
            query: int32 `(rows,)`, text indices.
            words: `[rows, words]`, word indices of the queries.
            titles: int32 `(rows, columns)`, title indices, -1 for padding.
            targets: grades or scores `(rows, columns)`; empty for clicks.
            is_real: bool `(rows,)`, false for rows that pad the batch.
            letters_only_mask: bool `(words,)`, the words whose own row is left out.
        """
        shapes, rows, mask = self.shapes, tf.size(query), titles >= 0
        # Column by column, so that clicked titles are the first of the distinct titles.
        by_column = tf.reshape(tf.transpose(tf.where(mask, titles, titles[:, :1])), [-1])
        distinct, index = tf.unique(by_column)
        candidates = tf.transpose(tf.reshape(index, tf.reverse(tf.shape(titles), [0])))
        count = round_up(tf.size(distinct), shapes.distinct_titles)
        title_words = tf.gather(self.texts.words, distinct + self.texts.first_title)
        texts = {"query": (words, rows), "titles": (title_words, count)}
        if self.joint:
            # The complement of an index is the same word as a separate row. So a word of a query
            # and of a title is in the batch twice, and dropout draws separately for each side.
            title_words = title_words.with_values(tf.bitwise.invert(title_words.flat_values))
            texts = {"texts": (tf.concat([words, title_words], 0), rows + count)}
        inputs: dict[str, Any] = {
            name: text_batch(
                words_of_texts, self.texts, shapes.text_shape(name), size, letters_only_mask
            )
            for name, (words_of_texts, size) in texts.items()
        }
        # For clicks, column 0 is the clicked title, so that all rows share one row of labels.
        columns = tf.shape(candidates)[1]
        labels = {"mask": mask, "correction": tf.zeros([1, columns])}
        labels["targets"] = targets[0] if targets else tf.one_hot([0], columns)
        if self.in_batch and targets:
            inputs["in_batch"] = tf.range(0)  # batches of all sources need the same keys
        elif self.in_batch:
            fixed = shapes.distinct_titles > 0
            # The clicked titles are the first `size` of the distinct titles.
            size = tf.minimum(rows, count) if fixed else tf.reduce_max(index[:rows]) + 1
            clicked = tf.where(
                is_real, candidates[:, 0], size
            )  # padding rows: an extra count, cut off
            counts = tf.math.bincount(clicked, minlength=size + 1, maxlength=size + 1)[:size]
            log_counts = tf.math.log(tf.cast(tf.maximum(counts, 1), tf.float32))
            others = (counts > 0)[None] & ~self._were_clicked(query, distinct[:size], size)
            inputs["in_batch"] = tf.range(size)
            labels["mask"] = tf.concat([mask, others], 1)
            labels["correction"] = tf.concat([labels["correction"], log_counts[None]], 1)
            labels["targets"] = tf.one_hot([0], columns + size)
        return inputs | {"candidates": candidates}, labels

    def _were_clicked(self, query: tf.Tensor, titles: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """Whether each title was clicked for each row's query, bool `(rows, size)`."""
        queries, row_of = tf.unique(query)
        clicked = tf.gather(self.texts.clicked, queries)
        order = tf.argsort(titles)
        ordered = tf.gather(titles, order)
        index = tf.minimum(tf.searchsorted(ordered, clicked.values), tf.size(ordered) - 1)
        is_match = tf.gather(ordered, index) == clicked.values
        rows = tf.boolean_mask(tf.cast(clicked.value_rowids(), tf.int32), is_match)
        columns = tf.boolean_mask(tf.gather(order, index), is_match)
        unclicked = tf.zeros([tf.size(queries), size], tf.bool)
        cells = tf.stack([rows, columns], 1)
        were_clicked = tf.tensor_scatter_nd_update(unclicked, cells, tf.ones_like(rows, tf.bool))
        return tf.gather(were_clicked, row_of)


def _parallel_batches() -> int:
    """Number of batches to make in parallel: one per thread of TensorFlow, or per core."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or os.cpu_count() or 1)
