"""Rows of numbers to batches a `Siamese` model trains on: candidates, labels, weights.

A step's batch depends on the seed, the epoch and the step alone: workers agree without talking,
and a run resumes inside an epoch. What depends on the data is settled here, so that the model
stays a cosine and the loss a softmax: which titles are candidates, which are masked because the
query's users clicked them, how often each was likely to be drawn, how much a click weighs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.data.query_words import QueryWords
from dssm_tf.data.rows import Rows
from dssm_tf.data.texts import Shapes, Texts, fit, lists_of, plan_shapes, text_batch

_SPARE = 4
_FRESH, _MINED, _WORDS = (np.array([0, number << 40]) for number in range(3))  # to a step's key
_POOL = np.array([0, 1 << 40])  # added to a pass's key
_SEED_STRIDE = 8  # above the number of sources
_Uniform = Callable[[NDArray[np.int64], int], tf.Tensor]


@dataclass(frozen=True, eq=False)
class Batches:
    """Rows of several sources as batches: each batch is of one source, the sources evenly spread.

    A step's rows are the same however many workers and replicas share it. (In-batch negatives are
    those of a part.)

    Args:
        texts: what numbers stand for.
        sources: rows by part: `train`, `validation`, and what is learned in every case.
        fresh: further negatives a click, drawn from all titles anew in each pass.
        draw: chance of each title in that draw, `(titles,)`.
        in_batch: whether the other clicked titles of the replica's batch are negatives too.
        joint: whether one text batch holds queries and titles, which a shared tower reads.
        typos: share of the queries with a typing error, see `QueryWords`.
        mined: numbers of queries and of hard negatives for them, `(pairs, 2)`.
        mined_count: hard negatives a query and pass; never one that was clicked.
        shapes: sizes to pad to.
        parts: which of the sources' parts are read.
    """

    texts: Texts
    sources: tuple[Mapping[str, Rows], ...]
    fresh: int = 0
    draw: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    in_batch: bool = True
    joint: bool = False
    typos: float = 0.0
    mined: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    mined_count: int = 0
    shapes: Shapes = field(default_factory=Shapes)
    parts: tuple[str, ...] = ("train", "always")

    def of(self, splits: Iterable[str]) -> Batches:
        """The same of other parts: of `train`, or of `train` and `validation`."""
        return replace(self, parts=(*splits, "always"))

    def held_out(self) -> Batches | None:
        """The validation part, with negatives as in training; None if there is none."""
        found = replace(self, parts=("validation",))
        return found if found.steps else None

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """What batches are made of in turn: of each source, weights rescaled."""
        held = ([source[part] for part in self.parts if part in source] for source in self.sources)
        joined = [Rows.joined(parts) for parts in held if parts]
        return tuple(rows.rescaled() for rows in joined if rows.per_pass)

    @property
    def steps(self) -> int:
        """Batches a pass."""
        return sum(rows.steps for rows in self.rows)

    def planned(self, fixed: bool = False, parts: int = 1) -> Batches:
        """The same batches in sizes that suit the first few of a shuffled pass.

        Args:
            fixed: whether rows are padded to one number, as compiled programs need them.
            parts: into how many parts devices cut a step.
        """
        plain = replace(self, in_batch=False, shapes=Shapes())  # the same texts
        read = plain.epochs(0, 0, 1, replicas=parts).take(24)
        return replace(self, shapes=plan_shapes([inputs for inputs, _, _ in read], fixed))

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
        """Passes `start` to `stop`, each shuffled by the seed and its number alone.

        Args:
            seed: shuffles by it; None keeps the order of the rows.
            start: the first pass.
            stop: the pass before which it ends.
            worker: which of the processes that share each step this is, from 0.
            workers: how many they are.
            replicas: devices of this process; each step yields one element a replica.
            step: of the first pass, where it begins.

        Returns:
            Elements `(inputs, labels, weights)`: a dict with the text batches `query` and
            `titles`, or `texts` for both, and `candidates` int32 `(batch, columns)`; labels, see
            `RankingLoss`; weights float32 `(batch,)`. Rows that fill up the last batch have
            weight 0 and are nobody's candidates.
        """
        turns = [
            ((at + 0.5) / rows.steps, source, at)
            for source, rows in enumerate(self.rows)
            for at in range(rows.steps)
        ]
        ordered = np.tile(np.array(sorted(turns))[:, 1:].astype(np.int64), (stop - start, 1))
        passes = np.repeat(np.arange(start, stop), len(turns))
        keys = np.column_stack([passes, ordered])[step:].repeat(replicas, axis=0)
        replica = worker * replicas + np.arange(len(keys)) % replicas
        sources, found = keys[:, 1], []
        for source in range(len(self.rows)):
            mine = tf.data.Dataset.from_tensor_slices(
                np.column_stack([keys, replica])[sources == source]
            )
            make = tf.autograph.experimental.do_not_convert(
                self._maker(source, seed, workers * replicas)
            )
            found.append(mine.map(make, num_parallel_calls=_cores(), deterministic=True))
        turn = tf.data.Dataset.from_tensor_slices(sources)
        chosen = tf.data.Dataset.choose_from_datasets(found, turn)
        return chosen.prefetch(2 * replicas).with_options(WITHOUT_AUTOTUNING)

    def _maker(
        self, source: int, seed: int | None, shares: int
    ) -> Callable[[tf.Tensor], tuple[Any, Any, tf.Tensor]]:
        """What makes a replica's part of a step, of (pass, source, step, replica)."""
        rows = self.rows[source]
        share, count, before_pool = rows.size // shares, rows.per_pass, rows.per_pass - rows.drawn
        columns = (rows.query, rows.titles, rows.weights, rows.targets)
        tensors = [tf.constant(column) for column in columns if column is not None]
        clicks, shuffle = rows.targets is None, tf.random.experimental.index_shuffle
        query_words = QueryWords(self.texts, self.typos)
        draw = self._drawing()

        def make(element: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
            epoch, _, step, replica = tf.unstack(element)
            first = replica * share
            at = step * rows.size + first + tf.range(share, dtype=tf.int64)
            real, at = at < count, at % count
            if seed is not None:
                key = tf.stack([tf.constant(seed * _SEED_STRIDE + source, tf.int64), epoch])
                at = shuffle(at, key, count - 1)
                if rows.pool:
                    of_pool = shuffle(tf.maximum(at - before_pool, 0), key + _POOL, rows.pool - 1)
                    at = tf.where(at < before_pool, at, before_pool + of_pool)
            key = tf.stack([tf.constant(seed or 0, tf.int64), epoch * rows.steps + step])

            def uniform(purpose: NDArray[np.int64], width: int) -> tf.Tensor:
                # Of the whole step, so that it does not depend on who shares it.
                shape = [rows.size, width]
                chance = tf.random.stateless_uniform(shape, key + purpose, dtype=tf.float64)
                return chance[first : first + share]

            query, titles, weights, *targets = (tf.gather(column, at) for column in tensors)
            if clicks:
                titles = tf.concat([titles, *draw(query, uniform)], 1)
            words = tf.gather(self.texts.words, query)
            if seed is not None and (rows.pool or self.typos):
                words = query_words(query, words, uniform(_WORDS, query_words.width))
            inputs, labels = self._batch(query, words, titles, targets, real)
            if len(self.sources) > 1:
                labels["source"] = tf.fill([share], rows.source)
            return inputs, labels, tf.where(real, weights, 0.0)

        return make

    def _drawing(self) -> Callable[[tf.Tensor, _Uniform], Iterator[tf.Tensor]]:
        """What draws negatives beside the recorded ones, `(rows, negatives)` each."""
        upto = tf.constant(np.cumsum(self.draw))
        mined = lists_of(self.mined, self.texts.words.nrows())
        width = int(tf.reduce_max(mined.row_lengths()))

        def draw(query: tf.Tensor, uniform: _Uniform) -> Iterator[tf.Tensor]:
            if self.fresh:
                chance = uniform(_FRESH, 2 * self.fresh + _SPARE)
                titles = tf.searchsorted(upto, tf.reshape(chance, [-1]), side="right")
                titles = tf.minimum(tf.reshape(titles, tf.shape(chance)), len(upto) - 1)
                yield self._unclicked(query, titles, self.fresh)
            if width:
                titles = tf.gather(mined, query).to_tensor(-1, shape=[None, width])
                order = tf.argsort(uniform(_MINED, width), direction="DESCENDING")
                titles = tf.gather(titles, order, batch_dims=1)
                yield self._unclicked(query, titles, self.mined_count)

        return draw

    def _unclicked(self, query: tf.Tensor, titles: tf.Tensor, count: int) -> tf.Tensor:
        """The first `count` titles of each row that nobody clicked for its query; -1 for none."""
        clicked = tf.gather(self.texts.clicked, query)
        stride = tf.constant(1 << 32, tf.int64)
        known = clicked.value_rowids() * stride + tf.cast(clicked.values, tf.int64)  # increasing
        rows = tf.range(tf.size(query, tf.int64))[:, None]
        wanted = tf.reshape(rows * stride + tf.cast(titles, tf.int64), [-1])
        place = tf.minimum(tf.searchsorted(known, wanted), tf.size(known) - 1)
        hit = tf.reshape(tf.gather(known, place) == wanted, tf.shape(titles))
        kept = tf.ragged.boolean_mask(titles, ~hit & (titles >= 0))[:, :count]
        return kept.to_tensor(-1, shape=[None, count])

    def _batch(
        self,
        query: tf.Tensor,
        words: tf.RaggedTensor,
        titles: tf.Tensor,
        targets: list[tf.Tensor],
        real: tf.Tensor,
    ) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
        """Inputs for `Siamese` and labels for a `RankingLoss`, of the words of queries."""
        shapes, rows, mask = self.shapes, tf.size(query), titles >= 0
        # Column by column, so that clicked titles are the first of the distinct ones.
        flat = tf.reshape(tf.transpose(tf.where(mask, titles, titles[:, :1])), [-1])
        distinct, index = tf.unique(flat)
        candidates = tf.transpose(tf.reshape(index, tf.reverse(tf.shape(titles), [0])))
        count = fit(tf.size(distinct), shapes.distinct_titles)
        named = tf.gather(self.texts.words, distinct + self.texts.first_title)
        sides = {"query": (words, rows), "titles": (named, count)}
        if self.joint:  # a word of both is two, and dropout draws for each
            named = named.with_values(tf.bitwise.invert(named.flat_values))
            sides = {"texts": (tf.concat([words, named], 0), rows + count)}
        inputs: dict[str, Any] = {
            side: text_batch(found, self.texts.ngrams, shapes.of(side), size)
            for side, (found, size) in sides.items()
        }
        correction = tf.zeros_like(candidates, tf.float32)
        if targets:
            (wanted,) = targets
        else:
            wanted = tf.one_hot(tf.zeros_like(query), tf.shape(candidates)[1])
        if self.in_batch and not targets:
            fixed = shapes.distinct_titles > 0
            size = tf.minimum(rows, count) if fixed else tf.reduce_max(index[:rows]) + 1
            clicked = tf.where(real, candidates[:, 0], size)  # one past the end is dropped
            times = tf.math.bincount(clicked, minlength=size + 1, maxlength=size + 1)[:size]
            counted = tf.math.log(tf.cast(tf.maximum(times, 1), tf.float32))
            others = (times > 0)[None] & ~self._were_clicked(query, distinct[:size], size)
            candidates = tf.concat([candidates, tf.tile(tf.range(size)[None], [rows, 1])], 1)
            correction = tf.concat([correction, tf.tile(counted[None], [rows, 1])], 1)
            mask = tf.concat([mask, others], 1)
            wanted = tf.concat([wanted, tf.zeros_like(others, tf.float32)], 1)
        labels = {"mask": mask, "correction": correction, "targets": wanted}
        return inputs | {"candidates": candidates}, labels

    def _were_clicked(self, query: tf.Tensor, titles: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """Bool `(rows, size)`: whether anybody clicked the title for the row's query."""
        queries, row_of = tf.unique(query)
        clicked = tf.gather(self.texts.clicked, queries)
        order = tf.argsort(titles)
        ordered = tf.gather(titles, order)
        place = tf.minimum(tf.searchsorted(ordered, clicked.values), tf.size(ordered) - 1)
        hit = tf.gather(ordered, place) == clicked.values
        rows = tf.boolean_mask(tf.cast(clicked.value_rowids(), tf.int32), hit)
        columns = tf.boolean_mask(tf.gather(order, place), hit)
        shape = tf.stack([tf.size(queries), size])
        hits = tf.scatter_nd(tf.stack([rows, columns], 1), tf.ones_like(rows), shape)
        return tf.gather(hits > 0, row_of)


def _cores() -> int:
    """How many batches to make at once: the machine's cores, or this process's share of them."""
    return int(os.environ.get("TF_NUM_INTRAOP_THREADS") or os.cpu_count() or 1)
