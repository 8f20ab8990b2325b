"""Rows of numbers to batches a `Siamese` model trains on: candidates, labels, weights.

A step's batch depends on the seed, the epoch and the step alone: workers agree without talking,
and a run goes on inside an epoch. What depends on the data is settled here, so that the model
stays a cosine and the loss a softmax: which titles are candidates, which are masked because the
query's users clicked them, how often each was likely to be drawn, how much a click weighs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.data.lists import Lists
from dssm_tf.data.query_words import QueryWords
from dssm_tf.data.shapes import Shapes, plan_shapes
from dssm_tf.data.text_batches import Texts, fit, padded, text_batch

_SPARE = 4
_FRESH, _MINED, _WORDS = (np.array([0, number << 40]) for number in range(3))  # to a step's key
_POOL = np.array([0, 1 << 40])  # added to a pass's key
_SEED_STRIDE = 8  # above the number of sources
_Uniform = Callable[[Any, int], tf.Tensor]


class Rows(NamedTuple):
    """What is learned from: queries, each with its candidates, as numbers of texts.

    Args:
        source: where they come from: 0 clicks, and the further ones of `SOURCES`.
        query: int32 `(rows,)`, see `Texts`.
        titles: int32 `(rows, columns)`, -1 for none; of clicks, the first was clicked.
        weights: float32 `(rows,)`, which `mean` rescales.
        size: rows of a step, over all workers and replicas.
        mean: weight of a row on average, those that fill up the last step included.
        targets: grades or scores `(rows, columns)`; None for clicks.
        pool: how many of the last rows, of weight 1, are a pool of which each pass reads others.
        drawn: how many of the pool a pass reads.
    """

    source: int
    query: NDArray[np.int32]
    titles: NDArray[np.int32]
    weights: NDArray[np.float32]
    size: int
    mean: float = 1.0
    targets: NDArray[np.float32] | None = None
    pool: int = 0
    drawn: int = 0

    @property
    def read(self) -> int:
        """How many rows a pass reads."""
        return len(self.query) - self.pool + self.drawn

    @property
    def steps(self) -> int:
        """Batches a pass."""
        return -(-self.read // self.size)

    @staticmethod
    def joined(many: Sequence[Rows]) -> Rows:
        """The rows of one source, of several parts; only the last may have a pool."""

        def column(name: str) -> Any:
            return np.concatenate([getattr(one, name) for one in many])

        targets = None if many[0].targets is None else column("targets")
        columns = {name: column(name) for name in ("query", "titles", "weights")}
        return many[-1]._replace(**columns, targets=targets)


@dataclass(frozen=True)
class Options:
    """How rows of clicks become batches.

    Args:
        fresh: further negatives a query, drawn from all known titles anew in each pass.
        draw: weight of each title in that draw, `(titles,)`; its sum is 1.
        in_batch: whether the other clicked titles of the replica's batch are negatives too.
        correction: of the rows of a replica's batch and of a pass, by what each title's logit is
            corrected, in nats, `(titles,)`; None for no correction.
        joint: whether one text batch holds queries and titles, which a shared tower reads.
        mined: hard negatives a query and pass.
        typos: share of the queries with a typing error, see `QueryWords`.
    """

    fresh: int = 0
    draw: NDArray[np.float64] | None = field(default=None, repr=False)
    in_batch: bool = True
    correction: Callable[[int, int], NDArray[np.float32]] | None = None
    joint: bool = False
    mined: int = 0
    typos: float = 0.0


@dataclass(frozen=True, eq=False)
class Batches:
    """Rows of several sources as batches: each batch is of one source, the sources evenly spread.

    A step's rows are the same however many workers and replicas share it. (In-batch negatives are
    those of a part.)

    Args:
        texts: what numbers stand for.
        sources: rows by part: `train`, `validation`, and what is learned in every case.
        options: how rows of clicks become batches.
        shapes: sizes to pad to.
        parts: which of the sources' parts are read.
        mined: hard negatives of each text as a query, see `with_mined`; never drawn if clicked.
    """

    texts: Texts
    sources: tuple[Mapping[str, Rows], ...]
    options: Options
    shapes: Shapes = field(default_factory=Shapes)
    parts: tuple[str, ...] = ("train", "always")
    mined: Lists | None = None

    def of(self, splits: Sequence[str]) -> Batches:
        """The same of other parts: of `train`, or of `train` and `validation`."""
        return replace(self, parts=(*splits, "always"))

    def held_out(self) -> Batches | None:
        """The validation part, with rivals as in training; None where there is none."""
        found = replace(self, parts=("validation",))
        return found if found.steps else None

    def with_mined(self, mined: Lists) -> Batches:
        """The same with other hard negatives, of the first texts; the others get none."""
        others = len(self.texts.words) - len(mined)
        return replace(self, mined=Lists.joined(mined, Lists([0] * others, [])))

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """What batches are made of in turn, weights rescaled: of each source."""
        found = []
        for source in self.sources:
            if not (held := [source[part] for part in self.parts if part in source]):
                continue
            if not len((one := Rows.joined(held)).query):
                continue
            total = one.weights.sum(dtype=np.float64) - (one.pool - one.drawn)
            scale = one.mean * one.steps * one.size / total
            found.append(one._replace(weights=(one.weights * scale).astype(np.float32)))
        return tuple(found)

    @property
    def steps(self) -> int:
        """Batches a pass."""
        return sum(one.steps for one in self.rows)

    def epoch(self, worker: int = 0, workers: int = 1, replicas: int = 1) -> tf.data.Dataset:
        """One pass in the order of the rows, see `epochs`."""
        return self._batches(None, 0, 1, 0, (worker, workers, replicas))

    def epochs(
        self,
        seed: int,
        start: int,
        stop: int,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
        step: int = 0,
    ) -> tf.data.Dataset:
        """Passes `start` to `stop`, each shuffled by the seed and its number alone.

        Args:
            seed: shuffles by it.
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
        return self._batches(seed, start, stop, step, (worker, workers, replicas))

    def planned(self, fixed: bool = False, parts: int = 1, batches: int = 24) -> Batches:
        """The same batches in sizes that suit the first few of a shuffled pass.

        Args:
            fixed: whether rows are padded to one number, as compiled programs want them.
            parts: into how many parts devices cut a step.
            batches: elements looked at.
        """
        options = replace(self.options, in_batch=False, correction=None)  # which change no text
        passed = replace(self, options=options, shapes=Shapes()).epochs(0, 0, 1, replicas=parts)
        return replace(self, shapes=plan_shapes((one for one, _, _ in passed.take(batches)), fixed))

    def _batches(
        self, seed: int | None, start: int, stop: int, step: int, layout: tuple[int, int, int]
    ) -> tf.data.Dataset:
        replicas = layout[2]
        steps = np.concatenate([np.arange(one.steps) for one in self.rows])
        which = np.repeat(np.arange(len(self.rows)), [one.steps for one in self.rows])
        times = np.concatenate([(np.arange(one.steps) + 0.5) / one.steps for one in self.rows])
        turns = np.argsort(times, kind="stable")
        passes = np.repeat(np.arange(start, stop), len(turns))[step:]
        turns = np.tile(turns, stop - start)[step:]
        found = []
        for number, rows in enumerate(self.rows):
            mine = which[turns] == number
            elements = np.stack([passes[mine], steps[turns][mine]], 1).repeat(replicas, axis=0)
            replica = np.tile(np.arange(replicas), int(mine.sum()))
            keys = tf.data.Dataset.from_tensor_slices((elements, replica))
            make = tf.autograph.experimental.do_not_convert(self._maker(number, rows, seed, layout))
            found.append(keys.map(make, num_parallel_calls=_cores(), deterministic=True))
        if len(found) > 1:
            choice = tf.data.Dataset.from_tensor_slices(np.repeat(which[turns], replicas))
            found = [tf.data.Dataset.choose_from_datasets(found, choice)]
        options = tf.data.Options()
        # In TensorFlow 2.21 the end of an autotuned iterator may wait for its sleeping thread.
        options.autotune.enabled = False
        return found[0].prefetch(2 * replicas).with_options(options)

    def _maker(
        self, number: int, rows: Rows, seed: int | None, layout: tuple[int, int, int]
    ) -> Callable[[tf.Tensor, tf.Tensor], tuple[Any, Any, tf.Tensor]]:
        """What makes a replica's part of a step of these rows."""
        worker, workers, replicas = layout
        share, count = rows.size // (workers * replicas), rows.read
        columns = [tf.constant(one) for one in (rows.query, rows.titles, rows.weights)]
        targets = None if rows.targets is None else tf.constant(rows.targets)
        draw, fixed = self._drawing(rows), rows.read - rows.drawn
        query_words = QueryWords(self.texts, self.options.typos)
        shuffle = tf.random.experimental.index_shuffle
        correction = None
        if self.options.correction is not None and targets is None:
            pairs = sum(one.read for one in self.rows if one.targets is None)
            correction = tf.constant(self.options.correction(share, pairs))

        def make(element: tf.Tensor, replica: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
            first = (worker * replicas + replica) * share
            at = element[1] * rows.size + first + tf.range(share, dtype=tf.int64)
            real, at = at < count, at % count
            if seed is not None:
                key = tf.stack([tf.constant(seed * _SEED_STRIDE + number, tf.int64), element[0]])
                at = shuffle(at, key, count - 1)
                if rows.pool:
                    of_pool = shuffle(tf.maximum(at - fixed, 0), key + _POOL, rows.pool - 1)
                    at = tf.where(at < fixed, at, fixed + of_pool)
            query, titles, weights = (tf.gather(column, at) for column in columns)
            key = tf.stack([tf.constant(seed or 0, tf.int64), element[0] * rows.steps + element[1]])

            def uniform(purpose: Any, columns: int) -> tf.Tensor:
                # Of the whole step, so that it does not depend on who shares it.
                shape = [rows.size, columns]
                drawn = tf.random.stateless_uniform(shape, key + purpose, dtype=tf.float64)
                return drawn[first : first + share]

            for more in draw(query, uniform):
                titles = tf.concat([titles, more], 1)
            wanted = None if targets is None else tf.gather(targets, at)
            if seed is None:
                words = self.texts.words.gather(query)
            else:
                words = query_words(query, uniform(_WORDS, query_words.width))
            inputs, labels = self._batch(query, words, titles, wanted, real, correction)
            if len(self.sources) > 1:
                labels["source"] = tf.fill([share], rows.source)
            return inputs, labels, tf.where(real, weights, 0.0)

        return make

    def _drawing(self, rows: Rows) -> Callable[[tf.Tensor, _Uniform], list[tf.Tensor]]:
        """What draws negatives beside the recorded ones, `(rows, negatives)` each."""
        options, mined = self.options, self.mined
        if rows.targets is not None:
            return lambda query, uniform: []
        upto = tf.constant(np.zeros(0) if options.draw is None else np.cumsum(options.draw))
        most = 0 if mined is None else int(mined.lengths.max(initial=0))

        def draw(query: tf.Tensor, uniform: _Uniform) -> list[tf.Tensor]:
            found = []
            if options.fresh:
                chance = uniform(_FRESH, 2 * options.fresh + _SPARE)
                flat = tf.searchsorted(upto, tf.reshape(chance, [-1]), side="right")
                titles = tf.minimum(tf.reshape(flat, tf.shape(chance)), len(upto) - 1)
                found.append(self._unclicked(query, titles, options.fresh))
            if mined is not None and most:
                chance = uniform(_MINED, most)
                titles = mined.gather(query).to_tensor(-1, shape=[None, most])
                order = tf.argsort(chance - tf.cast(titles < 0, tf.float64), direction="DESCENDING")
                titles = tf.gather(titles, order, batch_dims=1)
                found.append(self._unclicked(query, titles, options.mined))
            return found

        return draw

    def _unclicked(self, query: tf.Tensor, titles: tf.Tensor, count: int) -> tf.Tensor:
        """The first `count` titles of each row that nobody clicked for its query; -1 for none."""
        clicked = self.texts.clicked.gather(query)
        stride = tf.constant(len(self.texts.words) + 2, tf.int64)
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
        targets: tf.Tensor | None,
        real: tf.Tensor,
        corrected: tf.Tensor | None,
    ) -> tuple[dict[str, Any], dict[str, tf.Tensor]]:
        """Inputs for `Siamese` and labels for a `RankingLoss`, of the words of queries."""
        shapes, rows = self.shapes, tf.size(query)
        mask = titles >= 0
        # Column by column, so that clicked titles are the first of the distinct ones.
        flat = tf.reshape(tf.transpose(tf.where(mask, titles, titles[:, :1])), [-1])
        distinct, index = tf.unique(flat)
        candidates = tf.transpose(tf.reshape(index, tf.reverse(tf.shape(titles), [0])))
        count = fit(tf.size(distinct), shapes.distinct_titles)
        texts = distinct + self.texts.first_title
        if self.options.joint:
            joint = self.texts.joint(words, texts, shapes.texts, rows + count)
            inputs: dict[str, Any] = {"texts": joint}
        else:
            inputs = {
                "query": text_batch(words, self.texts.ngrams, shapes.query, rows),
                "titles": self.texts.batch(texts, shapes.titles, count),
            }
        correction = tf.zeros([count])
        if corrected is not None:
            correction = padded(tf.gather(corrected, distinct), [count])
        corrections = tf.gather(correction, candidates)
        if targets is None:
            targets = tf.one_hot(tf.zeros_like(query), tf.shape(candidates)[1])
            if self.options.in_batch:
                fixed = shapes.distinct_titles > 0
                size = tf.minimum(rows, count) if fixed else tf.reduce_max(index[:rows]) + 1
                clicked = tf.where(real, candidates[:, 0], size)  # one past the end is dropped
                times = tf.math.bincount(clicked, minlength=size + 1, maxlength=size + 1)[:size]
                counted = tf.math.log(tf.cast(tf.maximum(times, 1), tf.float32))
                counted += correction[:size]
                others = (times > 0)[None] & ~self._were_clicked(query, distinct[:size], size)
                candidates = tf.concat([candidates, tf.tile(tf.range(size)[None], [rows, 1])], 1)
                corrections = tf.concat([corrections, tf.tile(counted[None], [rows, 1])], 1)
                mask = tf.concat([mask, others], 1)
                targets = tf.concat([targets, tf.zeros_like(others, tf.float32)], 1)
        labels = {"mask": mask, "correction": corrections, "targets": targets}
        return inputs | {"candidates": candidates}, labels

    def _were_clicked(self, query: tf.Tensor, titles: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """Bool `(rows, size)`: whether anybody clicked the title for the row's query."""
        queries, row_of = tf.unique(query)
        clicked = self.texts.clicked.gather(queries)
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
    """How many batches to make at once: the cores this process may use, or its share of them."""
    if share := os.environ.get("TF_NUM_INTRAOP_THREADS", ""):
        return max(int(share), 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
