"""The trainings of a run: a first one, which validation ends, and a second on all records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.console import Console

from dssm_tf.config import Config
from dssm_tf.data.dataset import BatchOptions, ClickBatches
from dssm_tf.data.schema import FeatureSpec, load_titles, text_id
from dssm_tf.data.title_queries import choose_titles, clicked_titles, title_query_records
from dssm_tf.losses import LOSSES
from dssm_tf.model.semantic_ranker import Encoder, build_model
from dssm_tf.model.siamese import Siamese
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.checkpoint import Checkpoint
from dssm_tf.training.compilation import use_xla
from dssm_tf.training.distribution import Epochs, Workers, all_reduce_sum, distributed, fit, scope
from dssm_tf.training.keeper import Keeper
from dssm_tf.training.optimizers import ScheduledNesterov, make_optimizer
from dssm_tf.training.progress import TrainingProgress
from dssm_tf.training.run_directory import STATE
from dssm_tf.training.validation import ValidationTask


@dataclass(frozen=True)
class Phases:
    """The trainings of a run, `fit` and maybe `refit`, and what they have in common.

    Attributes:
        config: the model and how to train it.
        data: directory that preprocess wrote.
        out: the run's directory, which holds the checkpoints.
        spec: of the data.
        vocabulary: of the data.
        workers: the processes that share each step.
        strategy: their devices.
        quiet: no progress on the terminal.
        told: called at the start of an epoch with the phase, the epochs done and their number.
        untrained: the traced model and its first weights, kept for the second phase.
    """

    config: Config
    data: Path
    out: Path
    spec: FeatureSpec
    vocabulary: Vocabulary
    workers: Workers
    strategy: Any
    quiet: bool
    told: Callable[[str, int, int], object] | None = None
    untrained: list[tuple[Siamese, list[Any]]] = field(default_factory=list)

    @property
    def parts(self) -> int:
        """Into how many parts the devices of all workers cut a step."""
        return int(self.strategy.num_replicas_in_sync)

    def say(self, line: str) -> None:
        """Prints a line of progress, once for all workers."""
        if self.workers.chief and not self.quiet:
            Console().print(line, highlight=False)

    def refit(self, splits: tuple[str, ...], keeper: Keeper) -> tuple[Siamese, Keeper]:
        """Trains on all records, whose validation part has said for how long.

        Args:
            splits: of the records.
            keeper: of the training before.
        """
        records = sum(self.spec.records[split] for split in splits)
        epochs = keeper.best_epoch
        if self.config.training.refit == "continue":
            self.say(f"on from epoch {epochs} with all {records:,} records")
            return self.train("refit", splits, None, -(-2 * epochs // 3), keeper.best)
        self.say(f"again on all {records:,} records")
        return self.train("refit", splits, None, epochs)

    def train(
        self,
        phase: str,
        splits: tuple[str, ...],
        task: ValidationTask | None,
        epochs: int,
        weights: Sequence[np.ndarray] = (),
    ) -> tuple[Siamese, Keeper]:
        """Trains a model, or goes on where it was interrupted; returns it with what was kept.

        Args:
            phase: names the checkpoint; `refit` keeps the last epoch, not the best.
            splits: records to train on.
            task: validates after each epoch; None without validation.
            epochs: at most.
            weights: to start from; those of an untrained model if not given.
        """
        config, workers = self.config, self.workers
        keras.utils.set_random_seed(config.training.seed)
        replicas = self.parts // workers.count
        batches = {"train": self._batches(splits)}
        if task is not None:
            batches["validation"] = self._batches(("validation",), extra=False)
        steps = {name: one.steps for name, one in batches.items()}
        with scope(self.strategy):
            model = self._untrained_model(steps["train"] * epochs)
        if weights:
            for weight, value in zip(model.weights, weights, strict=True):
                weight.assign(value)
        keeper = Keeper(
            config.training,
            task,
            Encoder(model, self.vocabulary),
            Checkpoint(self.out / STATE / f"{phase}.npz"),
            workers.chief,
            keep_last=phase == "refit",
        )
        first = keeper.resume(model)
        if first >= epochs or keeper.finished:
            return model, keeper
        callbacks: list[keras.callbacks.Callback] = [keeper]
        progress = TrainingProgress(steps["train"], epochs, self.quiet)
        if workers.chief:
            logs = self.out / "logs" / phase
            board = keras.callbacks.TensorBoard(logs, write_graph=False, profile_batch=0)
            callbacks += [board, progress]
        if told := self.told:
            starts = keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda epoch, logs: told(phase, epoch, epochs)
            )
            callbacks.append(starts)

        def dataset(name: str, start: int, stop: int) -> Any:
            return distributed(
                self.strategy, batches[name], workers, replicas, config.training.seed, start, stop
            )

        validation = dataset("validation", 0, 0) if task is not None else None
        read = Epochs(dataset("train", first, epochs), validation, steps, first, epochs)
        try:
            fit(model, self.strategy, workers, read, callbacks)
        finally:
            progress.stop()
        return model, keeper

    def _untrained_model(self, updates: int) -> Siamese:
        """That of the phase before as it was at first, which spares tracing it again; or a new one.

        Args:
            updates: of this phase, which the momentum of the paper's optimizer goes by.
        """
        if self.untrained:
            model, values = self.untrained[0]
            for variable, value in zip(_state(model), values, strict=True):
                variable.assign(value)
            model.stop_training = False
            return model
        model = self._model(updates)
        _build_nothing_more(model)
        if not isinstance(model.optimizer, ScheduledNesterov):  # which holds `updates`
            values = [keras.ops.convert_to_numpy(variable) for variable in _state(model)]
            self.untrained.append((model, values))
        return model

    def _model(self, updates: int) -> Siamese:
        config = self.config
        model = build_model(config, self.vocabulary.size, config.training.precision)
        optimizer = make_optimizer(
            config.optimizer.name,
            config.optimizer.learning_rate,
            updates,
            config.optimizer.clip_norm,
            _averaging(config) | config.optimizer.options,
        )
        if isinstance(optimizer, ScheduledNesterov) and self.parts > 1:
            optimizer.replicas = self.parts
            optimizer.sum_over_replicas = all_reduce_sum
        model.compile(
            optimizer=optimizer,
            loss=LOSSES[config.loss.name](**config.loss.arguments),
            jit_compile=use_xla(config, self._pairs(config.training.epochs), self.parts),
        )
        optimizer.build(model.trainable_variables)
        return model

    def _pairs(self, epochs: int) -> int:
        return self.spec.records["train"] * epochs

    def _batches(self, splits: tuple[str, ...], extra: bool = True) -> ClickBatches:
        """Records of these splits and, with `extra`, the titles as queries for themselves."""
        like = self._training_part
        return replace(like, splits=splits, extra=like.extra if extra else (), like=like)

    @cached_property
    def _options(self) -> BatchOptions:
        config = self.config
        return BatchOptions(
            batch_size=config.training.batch_size,
            negatives=config.negatives.recorded,
            fresh=config.negatives.fresh,
            in_batch=config.negatives.in_batch,
            logq=config.negatives.logq,
            click_weight=config.training.click_weight,
            length_buckets=config.training.length_buckets,
            shuffle_buffer=config.training.shuffle_buffer,
            joint=config.shared_towers,
        )

    @cached_property
    def _training_part(self) -> ClickBatches:
        """Whose sizes and traced function the batches of all phases share."""
        extra = self._title_queries if self.config.training.title_queries else ()
        batches = ClickBatches(self.data, ("train",), self._options, extra=extra)
        fixed = use_xla(self.config, self._pairs(self.config.training.epochs), self.parts)
        return batches.planned(fixed, self.parts)

    @cached_property
    def _title_queries(self) -> list[bytes]:
        seed = self.config.training.seed
        titles = choose_titles(load_titles(self.data), self.spec.records["train"], seed)
        known = tuple(split for split, count in self.spec.records.items() if count)
        return title_query_records(
            titles,
            self.vocabulary,
            clicked_titles(self.data, known, {text_id(title.text) for title in titles}),
            self.config.negatives.recorded,
            self.spec.negative_alpha,
            seed,
        )


def _state(model: Siamese) -> list[Any]:
    """All that training changes: weights, states of random generators, the optimizer's slots."""
    return [*model.variables, *model.optimizer.variables]


def _averaging(config: Config) -> dict[str, Any]:
    """Options of the optimiser that keep moving averages of the weights."""
    momentum = config.training.averaging
    return {"use_ema": True, "ema_momentum": momentum} if momentum else {}


def _build_nothing_more(model: Siamese) -> None:
    """Tells Keras that model, loss and metrics are built.

    To see what there is to build Keras would take the average of the replicas' batches, which turns
    ids to floats and fails where the replicas have different numbers of titles.
    """
    model._maybe_symbolic_build = lambda **_: None
