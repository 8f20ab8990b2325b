"""The trainings of a run: its one model, fitted to some records for some epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import keras
import numpy as np
from rich.console import Console

from dssm_tf.common.progress import progress_of
from dssm_tf.config import Config
from dssm_tf.data.batches import Batches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.rows import click_rows, title_rows
from dssm_tf.data.texts import Numbers
from dssm_tf.graded.sources import SOURCES, Source, list_rows, read_sources
from dssm_tf.losses.ranking_loss import BySource, NestedLengths, RankingLoss
from dssm_tf.model.run_files import STATE
from dssm_tf.model.semantic_ranker import Encoder, build_model
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.devices import Devices, all_reduce_sum, use_xla
from dssm_tf.training.keeper import Keeper, put, state
from dssm_tf.training.mining import read_mined
from dssm_tf.training.optimizers import ScheduledNesterov, make_optimizer
from dssm_tf.training.validation import ValidationTask, with_intervals
from dssm_tf.training.warm_start import idf_start

Told = Callable[[str, int, Mapping[str, float]], object]
"""Called after each epoch with the phase, the epoch, from 1, and its metrics."""


class Fitting:
    """A model, and the records it is fitted to: once, or again on more of them.

    The model is built and traced once. Each fit starts from its first weights, or from weights
    that are given, and with a fresh optimizer.

    Attributes:
        model: what is fitted, in `training.precision`.
        ranked: the same towers in float32, with the weights to rank with: they are measured
            after each epoch, kept and written.
        sources: what is learned from besides clicks.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
        out: the run's directory, which holds the checkpoints.
        devices: what trains.
        quiet: no progress on the terminal.
        told: see `Told`.
        first: weights to start from; random ones if not given.
    """

    def __init__(
        self,
        config: Config,
        data: Preprocessed,
        out: Path,
        devices: Devices,
        quiet: bool,
        told: Told | None,
        first: Sequence[np.ndarray] | None = None,
    ) -> None:
        self._config = config
        self._out = out
        self._devices = devices
        self._quiet = quiet
        self._told = told
        keras.utils.set_random_seed(config.training.seed)
        compiled = use_xla(config, devices)
        self.sources = read_sources(config, data)
        self._batches = training_batches(config, data, devices.parts, compiled, self.sources)
        with devices.strategy.scope():
            self.model = build_model(config, data.vocabulary.size, config.training.precision)
            optimizer = configured_optimizer(config, devices.parts)
            self.model.compile(optimizer=optimizer, loss=configured_loss(config))
            optimizer.build(self.model.trainable_variables)
            if first is None and config.training.idf_start:
                first = idf_start(self.model, data.texts("titles"), data.vocabulary)
            if first is not None:
                put(self.model.weights, first)
            self._train = devices.step(self.model.train_step, compiled)
            self._test = devices.step(self.model.test_step, compiled)
            self._untrained = [keras.ops.convert_to_numpy(one) for one in state(self.model)]
        self.ranked = build_model(config, data.vocabulary.size)
        if first is not None:
            put(self.ranked.weights, first)
        self.encode = Encoder(self.ranked, data.vocabulary)

    @property
    def steps(self) -> int:
        """Batches of an epoch of the training part."""
        return self._batches.steps

    def fit(
        self,
        phase: str,
        splits: Sequence[str],
        epochs: int,
        task: ValidationTask | None = None,
        weights: Sequence[np.ndarray] | None = None,
    ) -> Keeper:
        """Fits the model, or goes on where that was interrupted; `ranked` has the kept weights.

        Args:
            phase: names the checkpoint.
            splits: records to train on.
            epochs: at most.
            task: validates after each epoch; None keeps the last one.
            weights: to start from; those of an untrained model if not given.

        Returns:
            What was kept, and the history.
        """
        config, model, devices = self._config, self.model, self._devices
        batches = self._batches.of(splits)
        held_out = None if task is None else self._batches.held_out()
        put(state(model), self._untrained)
        if weights is not None:
            put(model.weights, weights)
        if isinstance(model.optimizer, ScheduledNesterov):
            model.optimizer.total_updates.assign(batches.steps * epochs)
        path = self._out / STATE / f"{phase}.npz"
        keeper = Keeper(config.training, task, self.ranked, self.encode, path, devices.chief)
        keeper.resume(model)
        first, steps, seed = len(keeper.history), batches.steps, config.training.seed
        progress = TrainingProgress(steps, epochs, self._quiet)
        read = iter(devices.read(batches, seed, first, epochs, keeper.step))
        validation: Any = None if held_out is None else devices.read(held_out, None)
        for epoch in range(first, epochs):
            if keeper.finished:
                break
            with progress:
                progress.begin(epoch)
                for step in range(keeper.step, steps):
                    progress.step(self._train(read))
                    keeper.after_step(model, step + 1, steps)
            logs = _metrics(model)
            if held_out is not None:
                model.reset_metrics()
                validating = iter(validation)
                for _ in range(held_out.steps):
                    self._test(validating)
                logs |= {f"val_{name}": value for name, value in _metrics(model).items()}
            keeper.after_epoch(model, logs)
            progress.end(epoch, logs)
            if self._told:
                self._told(phase, epoch + 1, logs)
        put(self.ranked.weights, keeper.best)
        return keeper


class TrainingProgress(ExitStack):
    """How far the running epoch is, and one line for each finished one; a context that ends it.

    Args:
        steps: batches an epoch.
        epochs: epochs at most.
        quiet: prints nothing.
    """

    def __init__(self, steps: int, epochs: int, quiet: bool) -> None:
        super().__init__()
        self._steps = steps
        self._epochs = epochs
        self._console = Console(quiet=quiet)

    def begin(self, epoch: int) -> None:
        """Starts the epoch's bar."""
        self._started = monotonic()
        shown = progress_of(
            f"epoch {epoch + 1}/{self._epochs}", self._steps, not self._console.quiet
        )
        self._task = self.enter_context(shown)

    def step(self, loss: Any) -> None:
        """Counts a step."""
        # Read when it is shown: a device need not be waited for after each step.
        self._task.advance(state=lambda: f"loss {float(loss):.4f}")

    def end(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Replaces the bar by a line that stays."""
        self.close()
        parts = [f"epoch {epoch + 1:>3}/{self._epochs}", f"loss {logs['loss']:.4f}"]
        if "val_loss" in logs:
            parts.append(f"validation loss {logs['val_loss']:.4f}")
        if "ndcg@1" in logs:
            parts.append(with_intervals(logs))
        parts.append(f"{monotonic() - self._started:.1f} s")
        mark = " [green]best[/green]" if logs["best"] else ""
        self._console.print(" · ".join(parts) + mark, highlight=False, soft_wrap=True)


def _metrics(model: Siamese) -> dict[str, float]:
    """The metrics of all devices, of which every one reads."""
    return {name: float(value) for name, value in model.get_metrics_result().items()}


def training_batches(
    config: Config,
    data: Preprocessed,
    parts: int,
    fixed: bool = False,
    sources: Sequence[Source] = (),
) -> Batches:
    """The training part as batches, titles as queries for themselves among its records.

    Args:
        config: the model and how to train it.
        data: what preprocess wrote.
        parts: into how many parts devices cut a step.
        fixed: whether tensors have one size, as compiled programs want them.
        sources: what is learned from besides clicks, among which it is mixed.
    """
    training, negatives = config.training, config.negatives
    numbers = Numbers(data)
    lists = [list_rows(source, numbers) for source in sources]
    texts = numbers.texts(typos=training.typos > 0)
    clicks = {
        part: click_rows(pairs, negatives.recorded, training.click_weight, training.batch_size)
        for part, pairs in data.parts.items()
    }
    own = clicks if training.clicks else {}
    # A title that nobody clicked counts as clicked half a time.
    draw = np.maximum(data.title_counts[0], 0.5) ** data.spec.negative_alpha
    if training.title_queries:
        wanted = round(training.title_queries * data.count("train"))
        own |= {"always": title_rows(texts, clicks["train"], wanted)}

    batches = Batches(
        texts,
        (own, *lists),
        fresh=negatives.fresh,
        draw=draw / draw.sum(),
        in_batch=negatives.in_batch,
        joint=config.shared_towers,
        typos=training.typos,
        mined=read_mined(negatives, data),
        mined_count=negatives.mined,
    )
    return batches.planned(fixed, parts)


def configured_optimizer(
    config: Config, parts: int, updates: int = 1
) -> keras.optimizers.Optimizer:
    """The optimizer of a configuration.

    Args:
        config: the model and how to train it.
        parts: into how many parts devices cut a step.
        updates: how many there will be, for the schedule of `nesterov`.
    """
    averaging = config.training.averaging
    averages = {"use_ema": True, "ema_momentum": averaging} if averaging else {}
    optimizer = make_optimizer(config.optimizer, updates, **averages)
    if isinstance(optimizer, ScheduledNesterov) and parts > 1:
        optimizer.replicas = parts
        optimizer.sum_over_replicas = all_reduce_sum
    return optimizer


def configured_loss(config: Config) -> keras.losses.Loss:
    """The loss of a configuration: of clicks, or of each source that it learns from."""
    loss = RankingLoss(**config.loss.model_dump())
    if config.lists:
        graded = {
            name: RankingLoss(**section.loss.model_dump()) for name, section in config.lists.items()
        }
        # A loss for every source, so that their numbers are the same in every run.
        loss = BySource([graded.get(name, loss) for name in SOURCES])
    return NestedLengths(loss) if config.training.nested_lengths else loss
