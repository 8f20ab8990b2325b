"""Lists with grades or scores as batches, beside those of clicks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.data.batching import parse, to_batch
from dssm_tf.data.dataset import ClickBatches
from dssm_tf.data.mined_negatives import MinedNegatives
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.data.shapes import Shapes, plan_shapes
from dssm_tf.graded.sources import Source
from dssm_tf.tables.graded_lists import GradedList, deal
from dssm_tf.text.vocabulary import Vocabulary

_SEED_STRIDE = 1_000_003
_PLANNED = 24  # batches looked at
# Traced as it stands, see `dssm_tf.data.dataset`.
_plain = tf.autograph.experimental.do_not_convert


class Batches(Protocol):
    """What a training reads: `ClickBatches`, or `MixedBatches` with lists beside them."""

    @property
    def mined(self) -> MinedNegatives | None:
        """Hard negatives of the clicks."""
        ...

    def with_mined(self, mined: MinedNegatives) -> Batches:
        """The same with other hard negatives."""
        ...

    @property
    def steps(self) -> int:
        """Batches a pass."""
        ...

    def epoch(
        self, seed: int | None = None, worker: int = 0, workers: int = 1, replicas: int = 1
    ) -> tf.data.Dataset:
        """One pass, see `ClickBatches.epoch`."""
        ...

    def epochs(
        self,
        seed: int,
        start: int,
        stop: int,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
    ) -> tf.data.Dataset:
        """Passes `start` to `stop`, see `ClickBatches.epochs`."""
        ...

    def of(self, splits: Sequence[str]) -> Batches:
        """The same of other parts: of `train`, or of `train` and `validation`."""
        ...

    def held_out(self) -> Batches | None:
        """The validation part; None where there is none."""
        ...


@dataclass(frozen=True)
class ListBatches:
    """Lists as batches: a row is a query with its titles, targets are their grades or scores.

    Args:
        lists: to read, none longer than the section's `titles`.
        source: where they come from.
        vocabulary: hashes the texts.
        joint: whether one text batch holds queries and titles, which a shared tower reads.
        shapes: sizes to pad to.
    """

    lists: Sequence[GradedList]
    source: Source
    vocabulary: Vocabulary
    joint: bool
    shapes: Shapes = field(default_factory=Shapes)

    @classmethod
    def of_source(cls, source: Source, vocabulary: Vocabulary, joint: bool) -> ListBatches:
        """The training part of a source."""
        lists = _dealt(source.training, source.section.titles)
        return cls(lists, source, vocabulary, joint)

    @property
    def steps(self) -> int:
        """Batches a pass."""
        return -(-len(self.lists) // self.source.section.batch_size)

    def of(self, splits: Sequence[str]) -> ListBatches:
        """See `Batches`."""
        parts = {"train": self.source.training, "validation": self.source.held_out}
        lists = [one for split, part in parts.items() if split in splits for one in part]
        return replace(self, lists=_dealt(lists, self.source.section.titles))

    def held_out(self) -> ListBatches | None:
        """See `Batches`."""
        found = self.of(["validation"])
        return found if found.lists else None

    def planned(self, fixed: bool, parts: int) -> ListBatches:
        """The same in sizes that suit the first few batches, see `ClickBatches.planned`."""
        passed = replace(self, shapes=Shapes()).epoch(seed=0, replicas=parts).take(_PLANNED)
        return replace(self, shapes=plan_shapes((one for one, _, _ in passed), fixed))

    def epoch(
        self, seed: int | None = None, worker: int = 0, workers: int = 1, replicas: int = 1
    ) -> tf.data.Dataset:
        """See `Batches`; without a seed in the order of the lists."""
        return self._passes([seed], worker, workers, replicas)

    def epochs(
        self,
        seed: int,
        start: int,
        stop: int,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
    ) -> tf.data.Dataset:
        """See `Batches`."""
        seeds = [seed + _SEED_STRIDE * number for number in range(start, stop)]
        return self._passes(seeds, worker, workers, replicas)

    def _passes(
        self, seeds: Sequence[int | None], worker: int, workers: int, replicas: int
    ) -> tf.data.Dataset:
        section, parts = self.source.section, workers * replicas
        size = section.batch_size  # a multiple of the parts, see `check_devices`
        records, values = self._records, self._values
        weight = section.weight * self.steps * size / max(len(self.lists), 1)

        @_plain
        def cut(chosen: tf.Tensor) -> tf.data.Dataset:
            rows, numbers = tf.size(chosen), tf.range(size)
            shape = (workers, replicas, size // parts)
            mine = (
                tf.reshape(tf.gather(chosen, numbers % rows), shape)[worker],
                tf.reshape(numbers < rows, shape)[worker],
            )
            return tf.data.Dataset.from_tensor_slices(mine)

        @_plain
        def batch(chosen: tf.Tensor, real: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
            inputs, labels = self._batch(tf.gather(records, chosen), real)
            labels["targets"] = tf.gather(values, chosen)
            labels["source"] = tf.fill([size // parts], self.source.number)
            return inputs, labels, tf.where(real, tf.cast(weight, tf.float32), 0.0)

        shuffled = (self._order(seed).batch(size) for seed in seeds)
        return (
            reduce(tf.data.Dataset.concatenate, shuffled)
            .flat_map(cut)
            .map(batch, num_parallel_calls=2, deterministic=True)
            .prefetch(2 * replicas)
        )

    def _order(self, seed: int | None) -> tf.data.Dataset:
        order = tf.data.Dataset.range(len(self.lists))
        if seed is None:
            return order
        return order.shuffle(max(len(self.lists), 1), seed, reshuffle_each_iteration=False)

    def _batch(self, serialized: tf.Tensor, real: tf.Tensor) -> tuple[Any, Any]:
        """Inputs, and labels as clicks have them, padded to the longest list there is."""
        examples = parse(serialized, self._longest - 1, self.vocabulary.size)
        inputs, labels = to_batch(examples, real, False, None, 0.0, self.shapes, self.joint)
        missing = self._longest - tf.shape(inputs["candidates"])[1]
        inputs["candidates"] = tf.pad(inputs["candidates"], [[0, 0], [0, missing]])
        padded = {key: tf.pad(one, [[0, 0], [0, missing]]) for key, one in labels.items()}
        return inputs, padded

    @property
    def _longest(self) -> int:
        """Titles of the longest list, of any part: rows of all parts are of one width."""
        parts = (self.source.training, self.source.held_out)
        longest = max(len(one.titles) for part in parts for one in part)
        return min(longest, self.source.section.titles)

    @cached_property
    def _records(self) -> tf.Tensor:
        encoder = RecordEncoder(self.vocabulary)
        return tf.constant(
            [
                encoder.encode(one.query, [(title, 0, 0) for title in one.titles], 0.0)
                for one in self.lists
            ],
            tf.string,
        )

    @cached_property
    def _values(self) -> tf.Tensor:
        values: NDArray[np.float32] = np.zeros((len(self.lists), self._longest), np.float32)
        for row, one in zip(values, self.lists, strict=True):
            row[: len(one.values)] = one.values
        return tf.constant(values)


def _dealt(lists: Sequence[GradedList], most: int) -> Sequence[GradedList]:
    return [hand for one in lists for hand in deal(one, most)]


@dataclass(frozen=True)
class MixedBatches:
    """Clicks and lists in one pass: each batch is of one source, the sources evenly spread.

    Args:
        clicks: of the log, and of titles that are queries for themselves.
        lists: of the other sources.
        log: whether the log's own clicks are learned from.
    """

    clicks: ClickBatches
    lists: tuple[ListBatches, ...]
    log: bool

    @property
    def mined(self) -> MinedNegatives | None:
        """See `Batches`."""
        return self.clicks.mined

    def with_mined(self, mined: MinedNegatives) -> MixedBatches:
        """See `Batches`."""
        return replace(self, clicks=self.clicks.with_mined(mined))

    @property
    def steps(self) -> int:
        """Batches a pass."""
        return sum(one.steps for one in self._parts)

    @property
    def _parts(self) -> list[ClickBatches | ListBatches]:
        parts: tuple[ClickBatches | ListBatches, ...] = (self.clicks, *self.lists)
        return [one for one in parts if one.steps]

    def of(self, splits: Sequence[str]) -> MixedBatches:
        """See `Batches`."""
        clicks = self.clicks.of(splits if self.log else ())
        return replace(self, clicks=clicks, lists=tuple(one.of(splits) for one in self.lists))

    def held_out(self) -> MixedBatches | None:
        """See `Batches`."""
        clicks = (self.clicks.held_out() if self.log else None) or replace(
            self.clicks, splits=(), extra=()
        )
        lists = tuple(held for one in self.lists if (held := one.held_out()) is not None)
        found = replace(self, clicks=clicks, lists=lists)
        return found if found.steps else None

    def epoch(
        self, seed: int | None = None, worker: int = 0, workers: int = 1, replicas: int = 1
    ) -> tf.data.Dataset:
        """See `Batches`."""
        layout = (worker, workers, replicas)
        return self._mixed([one.epoch(seed, *layout) for one in self._parts], 1, replicas)

    def epochs(
        self,
        seed: int,
        start: int,
        stop: int,
        worker: int = 0,
        workers: int = 1,
        replicas: int = 1,
    ) -> tf.data.Dataset:
        """See `Batches`."""
        layout = (worker, workers, replicas)
        found = [one.epochs(seed, start, stop, *layout) for one in self._parts]
        return self._mixed(found, stop - start, replicas)

    def _mixed(self, found: list[tf.data.Dataset], passes: int, replicas: int) -> tf.data.Dataset:
        if self.clicks.steps:
            found[0] = found[0].map(_plain(_of_clicks))
        turns = spread([one.steps for one in self._parts])
        turns = np.tile(np.repeat(turns, replicas), passes)
        choice = tf.data.Dataset.from_tensor_slices(turns)
        return tf.data.Dataset.choose_from_datasets(found, choice)


def spread(counts: Sequence[int]) -> NDArray[np.int64]:
    """Turns of players that have so many each, evenly spread: `[2, 4]` gives 1 0 1 1 0 1."""
    players = np.repeat(np.arange(len(counts)), counts)
    times = np.concatenate([(np.arange(count) + 0.5) / count for count in counts if count])
    turns: NDArray[np.int64] = players[np.argsort(times, kind="stable")]
    return turns


def _of_clicks(inputs: Any, labels: Any, weights: tf.Tensor) -> tuple[Any, Any, tf.Tensor]:
    """A batch of clicks, labelled as one."""
    return inputs, labels | {"source": tf.zeros_like(weights, tf.int32)}, weights


def with_lists(clicks: ClickBatches, sources: Sequence[Source], log: bool, parts: int) -> Batches:
    """Batches of clicks with those of further sources among them; clicks alone if there are none.

    Args:
        clicks: of the training part, planned.
        sources: of lists.
        log: whether the log's own clicks are learned from. Titles as queries for themselves stay
            in any case.
        parts: into how many parts devices cut a step.
    """
    if not sources:
        return clicks
    vocabulary, joint = clicks.data.vocabulary, clicks.options.joint
    lists = [ListBatches.of_source(one, vocabulary, joint) for one in sources]
    shapes = clicks.shapes
    if not (log or clicks.extra):
        shapes = lists[0].planned(shapes.distinct_titles > 0, parts).shapes
    found = tuple(replace(one, shapes=shapes) for one in lists)
    return MixedBatches(clicks, found, log).of(["train"])
