"""TFRecords to batches a `Siamese` model trains on: distinct words, candidates, labels, weights.

Everything that depends on the data alone is settled here, in tf.data, so that the model stays a
cosine and the loss a softmax: which titles are candidates, which are masked because the query's
users clicked them, how often each was likely to be drawn, how much a click weighs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.data.batching import ClickedLookup, Labels, parse, to_batch
from dssm_tf.data.fresh_negatives import FreshNegatives
from dssm_tf.data.mined_negatives import MinedNegatives
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.shapes import Shapes, plan_shapes

_SEED_STRIDE = 1_000_003
_Draws = tuple[tf.Tensor, ...]
"""What each source of further negatives drew for the rows of a step."""
# Traced as it stands; having AutoGraph look for Python loops over tensors to rewrite would take
# seconds before every training.
_plain = tf.autograph.experimental.do_not_convert


@dataclass(frozen=True)
class BatchOptions:
    """How records become batches.

    Args:
        batch_size: queries a step, over all replicas and workers.
        negatives: recorded negatives used a query, at most as many as were recorded.
        fresh: further negatives a query, drawn from all known titles anew in each pass.
        in_batch: whether the other clicked titles of the replica's batch are negatives too.
        logq: strength of the correction for how often a candidate is drawn, 0 (off) to 1.
        click_weight: weight of a pair in the loss: `none` 1, `log` 1 + ln(clicks), `linear`.
        length_buckets: titles are batched with titles of like length, up to each of these many
            words; empty for one bucket.
        shuffle_buffer: records held for shuffling.
        joint: whether one text batch holds queries and titles, which a shared tower reads.
    """

    batch_size: int = 256
    negatives: int = 4
    fresh: int = 0
    in_batch: bool = True
    logq: float = 0.0
    click_weight: str = "none"
    length_buckets: Sequence[int] = ()
    shuffle_buffer: int = 200_000
    joint: bool = False


@dataclass(frozen=True)
class ClickBatches:
    """Records of a preprocessed directory as batches.

    A step's batch is the same however many workers and replicas share it: it is formed first,
    then cut into equal parts. (In-batch negatives are those of a part.)

    Args:
        data: what preprocess wrote.
        splits: `train`, `validation`, or both.
        options: how records become batches.
        shapes: sizes to pad to.
        extra: serialised records on top of the directory's.
        fresh: draws `options.fresh` further negatives; made from the data if not given.
        mined: adds hard negatives; `options.logq` does not count how often these are drawn.
    """

    data: Preprocessed
    splits: tuple[str, ...]
    options: BatchOptions
    shapes: Shapes = field(default_factory=Shapes)
    extra: Sequence[bytes] = field(default=(), repr=False)
    fresh: FreshNegatives | None = field(default=None, repr=False)
    mined: MinedNegatives | None = field(default=None, repr=False)

    def of(self, splits: Sequence[str]) -> ClickBatches:
        """The same of other parts, as far as they hold records."""
        return replace(self, splits=tuple(one for one in splits if self.data.count(one)))

    def held_out(self) -> ClickBatches | None:
        """The validation part, with rivals as in training; None where there is none."""
        found = replace(self, splits=("validation",), extra=())
        return found if self.data.count("validation") else None

    def with_mined(self, mined: MinedNegatives) -> ClickBatches:
        """The same with other hard negatives."""
        return replace(self, mined=mined)

    @cached_property
    def steps(self) -> int:
        """Batches a pass."""
        size = self.options.batch_size
        counts = self._bucket_counts if self.options.length_buckets else [self._records]
        return sum(-(-int(count) // size) for count in counts)

    def epoch(
        self, seed: int | None = None, worker: int = 0, workers: int = 1, replicas: int = 1
    ) -> tf.data.Dataset:
        """One pass over the records.

        Args:
            seed: shuffles by it; None keeps the order of the files.
            worker: which of the processes that share each step this is, from 0.
            workers: how many they are.
            replicas: devices of this process; each step yields one element a replica.

        Returns:
            `steps * replicas` elements `(inputs, labels, weights)`: a dict with the text
            batches `query` and `titles`, or `texts` for both, and `candidates` int32
            `(batch, columns)`; labels, see `RankingLoss`; weights float32
            `(batch,)`, with mean 1 over the pass.
            Rows that fill up the last batch have weight 0 and are nobody's candidates.

        Raises:
            UserError: the batch size cannot be cut into equal parts.
        """
        return self._cut(self._steps([seed]), worker, workers, replicas)

    def epochs(
        self,
        seed: int,
        start: int,
        stop: int,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
    ) -> tf.data.Dataset:
        """Passes `start` to `stop`, each shuffled by the seed and its number alone.

        So a run that goes on at epoch 7 sees what an uninterrupted one sees there.
        """
        seeds = [seed + _SEED_STRIDE * number for number in range(start, stop)]
        return self._cut(self._steps(seeds), worker, workers, replicas)

    def _steps(self, seeds: Sequence[int | None]) -> tf.data.Dataset:
        """Serialised records of each step, at most `batch_size`, and draws for them.

        Args:
            seeds: of each pass; None keeps the order of the files.
        """
        passes = [self._grouped(self._shuffled(seed)) for seed in seeds]
        records = reduce(tf.data.Dataset.concatenate, passes)
        if not (sources := self._sources):
            return records.map(_plain(lambda serialized: (serialized, ())))
        numbers = [(seed or 0, step) for seed in seeds for step in range(self.steps)]
        keys = tf.data.Dataset.from_tensor_slices(tf.constant(numbers, tf.int64))

        @_plain
        def with_draws(serialized: tf.Tensor, key: tf.Tensor) -> tuple[tf.Tensor, _Draws]:
            size = self.options.batch_size
            return serialized, tuple(source.draw(size, key) for source in sources)

        return tf.data.Dataset.zip(records, keys).map(with_draws)

    def _shuffled(self, seed: int | None) -> tf.data.Dataset:
        records = self._read()
        if seed is None:
            return records
        buffer = min(self.options.shuffle_buffer, max(self._records, 1))
        return records.shuffle(buffer, seed=seed, reshuffle_each_iteration=False)

    def _cut(
        self, steps: tf.data.Dataset, worker: int, workers: int, replicas: int
    ) -> tf.data.Dataset:
        """This worker's parts of each step, as tensors."""
        size, parts = self.options.batch_size, workers * replicas
        if size % parts:
            raise UserError(
                f"training.batch_size: {size} cannot be cut into {parts} equal parts "
                f"({workers} workers of {replicas} replicas); choose a multiple of {parts}."
            )
        mean_weight = self._mean_weight
        _ = self._sources, self._clicks, self._clicked  # made here, not where `batch` is traced

        @_plain
        def cut(serialized: tf.Tensor, draws: _Draws) -> tf.data.Dataset:
            rows = tf.size(serialized)
            numbers = tf.range(size)
            filled = tf.gather(serialized, numbers % rows)
            shape = (workers, replicas, size // parts)
            mine = (
                tf.reshape(filled, shape)[worker],
                tf.reshape(numbers < rows, shape)[worker],
                tuple(tf.reshape(drawn, (*shape, tf.shape(drawn)[1]))[worker] for drawn in draws),
            )
            return tf.data.Dataset.from_tensor_slices(mine)

        @_plain
        def batch(
            serialized: tf.Tensor, real: tf.Tensor, draws: _Draws
        ) -> tuple[Any, Labels, tf.Tensor]:
            inputs, labels, weights = self._batch(serialized, real, draws)
            return inputs, labels, weights / mean_weight

        return (
            steps.flat_map(cut)
            .map(batch, num_parallel_calls=_cores(), deterministic=True)
            .prefetch(2 * replicas)
        )

    def planned(self, fixed: bool = False, parts: int = 1, batches: int = 24) -> ClickBatches:
        """The same batches in sizes that suit the first few of a shuffled pass.

        Args:
            fixed: whether rows are padded to one number, as compiled programs want them.
            parts: into how many parts devices cut a step.
            batches: elements looked at.
        """
        options = replace(self.options, in_batch=False, logq=0.0)  # which change no text
        plain = replace(self, options=options, shapes=Shapes())
        passed = plain.epoch(seed=0, replicas=parts).take(batches)
        inputs = (one for one, _, _ in passed)
        return replace(self, shapes=plan_shapes(inputs, fixed))

    def _grouped(self, records: tf.data.Dataset) -> tf.data.Dataset:
        size = self.options.batch_size
        if not self.options.length_buckets:
            return records.batch(size)
        return records.group_by_window(
            key_func=_plain(self._bucket),
            reduce_func=_plain(lambda _, window: window.batch(size)),
            window_size=size,
        )

    def _bucket(self, serialized: tf.Tensor) -> tf.Tensor:
        lengths = tf.io.parse_single_example(
            serialized, {"title_lengths": tf.io.RaggedFeature(tf.int64)}
        )["title_lengths"]
        bounds = tf.constant(sorted(self.options.length_buckets), tf.int64)
        return tf.cast(tf.searchsorted(bounds, lengths[:1])[0], tf.int64)

    @cached_property
    def _bucket_counts(self) -> NDArray[np.int64]:
        """Records of each bucket."""
        bounds = sorted(self.options.length_buckets)
        lengths = [words for words, _ in self._counted("title_words")]
        weights = [records for _, records in self._counted("title_words")]
        counts = np.bincount(np.searchsorted(bounds, lengths), weights, len(bounds) + 1)
        counts += np.bincount([int(self._bucket(one)) for one in self.extra], minlength=len(counts))
        return counts.astype(np.int64)

    def _counted(self, what: str) -> list[tuple[int, int]]:
        """Values, and of how many records, as preprocess counted them in these splits."""
        counts = [getattr(self.data.counts[split], what) for split in self.splits]
        return [pair for one in counts for pair in one.items()]

    @property
    def _records(self) -> int:
        return self.data.count(*self.splits) + len(self.extra)

    def _read(self) -> tf.data.Dataset:
        records = self.data.records(*self.splits)
        if self.extra:
            # First, so that a shuffle buffer smaller than the log still spreads them over it.
            records = tf.data.Dataset.from_tensor_slices(self._extra).concatenate(records)
        return records

    @cached_property
    def _extra(self) -> tf.Tensor:
        return tf.constant(list(self.extra), tf.string)

    @cached_property
    def _sources(self) -> tuple[FreshNegatives | MinedNegatives, ...]:
        """What draws negatives beside the recorded ones."""
        fresh = None
        if self.options.fresh:
            fresh = self.fresh or FreshNegatives.of(self.data, self.options.fresh)
        return tuple(one for one in (fresh, self.mined) if one is not None)

    @cached_property
    def _clicked(self) -> ClickedLookup:
        return ClickedLookup(self.data.clicked_titles)

    def _batch(
        self, serialized: tf.Tensor, real: tf.Tensor, draws: _Draws
    ) -> tuple[Any, Labels, tf.Tensor]:
        """Inputs, labels and weights, the latter as clicks alone have it."""
        options = self.options
        examples = parse(serialized, options.negatives, self.data.vocabulary.size)
        examples["clicked_ids"] = self._clicked(examples)
        for source, drawn in zip(self._sources, draws, strict=True):
            examples = source.extend(examples, drawn)
        inputs, labels = to_batch(
            examples,
            real,
            options.in_batch,
            partial(self._log_draws, tf.size(real)) if options.logq else None,
            options.logq,
            self.shapes,
            options.joint,
        )
        return inputs, labels, tf.where(real, self._weight(examples["clicks"]), 0.0)

    def _log_draws(self, size: tf.Tensor, clicks: tf.Tensor, queries: tf.Tensor) -> tf.Tensor:
        """Log of how often a title is expected among a query's candidates, `size` in a batch."""
        alpha, options = self.data.spec.negative_alpha, self.options
        expected = tf.zeros_like(clicks, tf.float32)
        if options.in_batch:
            own = tf.where(clicks > 0, float(bool(self.extra)), self._extra_share)
            rows = tf.cast(queries, tf.float32) + own
            expected += tf.cast(size, tf.float32) * tf.maximum(rows, 0.5) / self._records
        drawn = tf.maximum(tf.cast(clicks, tf.float32), 0.5) ** alpha
        # Recorded negatives are drawn from clicked titles, fresh ones from all.
        if options.negatives:
            clicked = np.maximum(self._clicks[self._clicks > 0], 0.5) ** alpha
            expected += options.negatives * drawn / float(np.sum(clicked))
        if options.fresh:
            every = np.maximum(self._clicks, 0.5) ** alpha
            expected += options.fresh * drawn / float(np.sum(every))
        return tf.math.log(expected)

    @cached_property
    def _clicks(self) -> NDArray[np.int64]:
        """Clicks of every title, in the training part."""
        return np.array([title.clicks for title in self.data.titles])

    @cached_property
    def _extra_share(self) -> float:
        """The share of the titles without a click that the extra records hold."""
        if not self.extra:
            return 0.0
        clicked = int(np.count_nonzero(self._clicks))
        unclicked = max(1, len(self._clicks) - clicked)
        return min(1.0, max(0, len(self.extra) - clicked) / unclicked)

    def _weight(self, clicks: tf.Tensor) -> tf.Tensor:
        kind = self.options.click_weight
        if kind == "log":
            return 1.0 + tf.math.log(tf.maximum(clicks, 1.0))
        return clicks if kind == "linear" else tf.ones_like(clicks)

    @cached_property
    def _mean_weight(self) -> float:
        """Mean weight of all rows of a pass, the filling rows included."""
        pairs = [*self._counted("clicks"), (1, len(self.extra))]  # a title is clicked once
        clicks, records = np.array(pairs, np.float32).T
        total = float(np.sum(self._weight(clicks) * records))
        return total / (self.steps * self.options.batch_size)


def _cores() -> int:
    """How many batches to make at once: the cores this process may use, or its share of them."""
    if share := os.environ.get("TF_NUM_INTRAOP_THREADS", ""):
        return max(int(share), 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
