"""The trainings of a run: its one model, fitted to some records for some epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
from numpy.typing import NDArray

from dssm_tf.config import Config
from dssm_tf.data.batches import Batches
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.data.rows import click_rows, title_rows
from dssm_tf.data.texts import Numbers
from dssm_tf.graded.sources import SOURCES, Source, list_rows, read_sources
from dssm_tf.losses.ranking_loss import BySource, NestedLengths, RankingLoss
from dssm_tf.model.run_files import LOGS, STATE
from dssm_tf.model.semantic_ranker import Encoder, build_model
from dssm_tf.model.siamese import Siamese
from dssm_tf.training.checkpoint import Checkpoint, put, state
from dssm_tf.training.devices import Devices, Epochs, all_reduce_sum, fit, use_xla
from dssm_tf.training.keeper import Keeper
from dssm_tf.training.keras_internals import build_nothing_more
from dssm_tf.training.mining import Remining, read_mined
from dssm_tf.training.optimizers import ScheduledNesterov, make_optimizer
from dssm_tf.training.progress import TrainingProgress
from dssm_tf.training.validation import ValidationTask
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
        self._data = data
        self._out = out
        self._devices = devices
        self._quiet = quiet
        self._told = told
        keras.utils.set_random_seed(config.training.seed)
        compiled = use_xla(config, data.count("train"), devices)
        self.sources = read_sources(config, data)
        self._batches = training_batches(
            config, data, devices.parts, fixed=compiled, sources=self.sources
        )
        with devices.scope():
            self.model = _compiled_model(config, data.vocabulary.size, devices.parts, compiled)
            if first is None and config.training.idf_start:
                first = idf_start(self.model, data.texts("titles"), data.vocabulary)
            if first is not None:
                put(self.model.weights, first)
            self._untrained = [keras.ops.convert_to_numpy(one) for one in state(self.model)]
        self.ranked = build_model(config, data.vocabulary.size)
        if first is not None:
            put(self.ranked.weights, first)
        self.encode = Encoder(self.ranked, data.vocabulary)
        self._remining = Remining(
            config.negatives, data, self.encode, out / STATE, devices.chief, quiet
        )

    def fit(
        self,
        phase: str,
        splits: Sequence[str],
        epochs: int,
        task: ValidationTask | None = None,
        weights: Sequence[np.ndarray] | None = None,
        keep_last: bool = False,
    ) -> Keeper:
        """Fits the model, or goes on where that was interrupted; `ranked` has the kept weights.

        Args:
            phase: names the checkpoint.
            splits: records to train on.
            epochs: at most.
            task: validates after each epoch; None without validation.
            weights: to start from; those of an untrained model if not given.
            keep_last: whether the last epoch is kept, not the best.

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
        checkpoint = Checkpoint(self._out / STATE / f"{phase}.npz", devices.chief)
        keeper = Keeper(config.training, task, self.ranked, self.encode, checkpoint, keep_last)
        first = keeper.resume(model)
        self._remining.check_table(self._batches.mined)
        progress = TrainingProgress(batches.steps, epochs, self._quiet or not devices.chief)
        every = config.negatives.mine_every
        listeners = [keeper, progress, *self._listeners(phase)]
        for start, stop in self._remining.stages(first, epochs, keeper.step):
            if keeper.finished:
                break
            if every and (start >= every or weights is not None):
                put(self.ranked.weights, keeper.weights_of(model))
                mined = self._remining.after(phase, start)
                batches = replace(batches, mined=mined)
                held_out = None if held_out is None else replace(held_out, mined=mined)
            read = Epochs(
                devices.read(batches, config.training.seed, start, stop, keeper.step),
                None if held_out is None else devices.read(held_out, None),
                batches.steps - keeper.step,
                0 if held_out is None else held_out.steps,
                start,
                stop,
            )
            try:
                fit(model, devices, read, listeners)
            finally:
                progress.stop()
        put(self.ranked.weights, keeper.best)
        return keeper

    def _listeners(self, phase: str) -> list[keras.callbacks.Callback]:
        """Who else hears of each epoch: TensorBoard and `told`."""
        listeners: list[keras.callbacks.Callback] = []
        if self._devices.chief:
            logs = self._out / LOGS / phase
            listeners.append(keras.callbacks.TensorBoard(logs, write_graph=False, profile_batch=0))
        if told := self._told:
            listeners.append(
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: told(phase, epoch + 1, logs)
                )
            )
        return listeners


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
    title_clicks, title_pairs = data.title_counts
    # A title that nobody clicked counts as clicked half a time.
    draw = np.maximum(title_clicks, 0.5) ** data.spec.negative_alpha
    draw /= draw.sum()
    drawn = 0.0  # of each title as a query, in a pass
    if training.title_queries:
        wanted = round(training.title_queries * data.count("train"))
        named = title_rows(texts, clicks["train"], wanted)
        own, drawn = own | {"always": named}, named.drawn / max(1, named.pool)

    def correction(size: int, pairs: int) -> NDArray[np.float32]:
        """Less the log of how often each title is expected among a query's candidates."""
        expected = np.zeros(len(draw))
        if negatives.in_batch:
            expected += size * np.maximum(title_pairs + drawn, 0.5) / pairs
        # Recorded negatives are drawn from clicked titles, fresh ones from all.
        clicked = draw[title_clicks > 0].sum()
        expected += (negatives.recorded / clicked + negatives.fresh) * draw
        return (-negatives.logq * np.log(expected)).astype(np.float32)

    batches = Batches(
        texts,
        (own, *lists),
        fresh=negatives.fresh,
        draw=draw,
        in_batch=negatives.in_batch,
        correction=correction if negatives.logq else None,
        joint=config.shared_towers,
        typos=training.typos,
        mined=read_mined(negatives, data),
        mined_count=negatives.mined,
    )
    return batches.planned(fixed, parts)


def _compiled_model(config: Config, vocabulary_size: int, parts: int, xla: bool) -> Siamese:
    """The untrained model with its loss and its optimizer, all their variables made.

    Args:
        config: the model and how to train it.
        vocabulary_size: letter trigrams of the data.
        parts: into how many parts devices cut a step.
        xla: whether XLA compiles the steps.
    """
    model = build_model(config, vocabulary_size, config.training.precision)
    optimizer = configured_optimizer(config, parts)
    model.compile(optimizer=optimizer, loss=configured_loss(config), jit_compile=xla)
    optimizer.build(model.trainable_variables)
    build_nothing_more(model)
    return model


def configured_optimizer(
    config: Config, parts: int, updates: int = 1
) -> keras.optimizers.Optimizer:
    """The optimizer of a configuration.

    Args:
        config: the model and how to train it.
        parts: into how many parts devices cut a step.
        updates: how many there will be, for the schedule of `nesterov`.
    """
    chosen, averaging = config.optimizer, config.training.averaging
    averages = {"use_ema": True, "ema_momentum": averaging} if averaging else {}
    optimizer = make_optimizer(
        chosen.name, chosen.learning_rate, updates, chosen.clip_norm, averages | chosen.options
    )
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
