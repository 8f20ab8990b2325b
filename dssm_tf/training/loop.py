"""The training loop of a run, on one host or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import keras
import numpy as np

from dssm_tf.common.memory import return_freed_memory, trim_allocators
from dssm_tf.config.optimizer import OptimizerOptions
from dssm_tf.config.training import TrainingConfig
from dssm_tf.data.batches import Batches
from dssm_tf.model.run_files import STATE
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.text_scorer import TextScorer
from dssm_tf.optimizers import ScheduledNesterov
from dssm_tf.training.callback_calls import CallbackCalls
from dssm_tf.training.checkpoint import BYTES_PER_SECOND, Checkpoint
from dssm_tf.training.devices import Devices, all_reduce_sum
from dssm_tf.training.early_stopping import BestWeights
from dssm_tf.training.model_state import assign_all
from dssm_tf.training.progress_lines import ProgressLines
from dssm_tf.training.ranking_validation import RankingValidation
from dssm_tf.training.validation import ValidationTask

_SECONDS_PER_TRIM = 10.0  # seconds between two calls of `trim_allocators` on CPUs


@dataclass(frozen=True)
class LoopOptions:
    """Output and callbacks of a training loop.

    Args:
        directory: the run's directory, in which checkpoints are saved.
        quiet: whether to print nothing.
        callbacks: further Keras callbacks, called in every phase as `fit` would call them.
        tensorboard: directory for TensorBoard, with a folder per phase; None writes nothing.
    """

    directory: Path
    quiet: bool = False
    callbacks: Sequence[keras.callbacks.Callback] = field(default=())
    tensorboard: Path | None = None


class TrainingLoop:
    """One model, fitted to given splits for given epochs, with validation and checkpoints.

    The loop exists because `keras.Model.fit` cannot train on several hosts (keras issue 20585).
    All that it adds to `fit` are Keras callbacks, which work in a plain `fit` too:
    `RankingValidation`, `BestWeights`, `Checkpoint` and `ProgressLines`.

    The model is built and traced once, and `fit` may be called more than once: first on the
    training split, then on all records. Each call starts with a fresh optimizer.

    Args:
        model: the model to train, built under the strategy of `devices`.
        ranking_model: the same towers in float32. After `fit` it has the weights to rank with.
        scorer: scores texts with `ranking_model`.
        batches: batches of all splits.
        loss: loss of the clicks, or a loss per source.
        optimizer: section that builds the optimizer.
        training: section `training`: epochs, early stopping, checkpoints, moving averages.
        devices: the devices to train on.
        xla: whether XLA compiles the steps.
        options: output and callbacks.
    """

    def __init__(
        self,
        model: Siamese,
        ranking_model: Siamese,
        scorer: TextScorer,
        batches: Batches,
        loss: keras.losses.Loss,
        optimizer: OptimizerOptions,
        training: TrainingConfig,
        devices: Devices,
        xla: bool,
        options: LoopOptions,
    ) -> None:
        self.model = model
        self.ranking_model = ranking_model
        self.scorer = scorer
        self._batches = batches
        self._loss = loss
        self._optimizer = optimizer
        self._training = training
        self._devices = devices
        self._xla = xla
        self._options = options
        self._initial_values = [
            keras.ops.convert_to_numpy(variable) for variable in model.variables
        ]
        self._compile(batches.steps * self.max_epochs)

    @property
    def initial_weights(self) -> list[np.ndarray]:
        """The weights before training, in the order of `model.weights`. Do not change them."""
        values = zip(self.model.variables, self._initial_values, strict=True)
        value_by_id = {id(variable): value for variable, value in values}
        return [value_by_id[id(weight)] for weight in self.model.weights]

    @property
    def steps(self) -> int:
        """Batches per epoch of the training split."""
        return self._batches.steps

    @property
    def max_epochs(self) -> int:
        """The largest number of epochs within `training.epochs` and `training.max_steps`."""
        epochs, steps = self._training.epochs, self._training.max_steps
        return epochs if steps is None else min(epochs, max(1, steps // max(1, self.steps)))

    def fit(
        self,
        phase: str,
        splits: Sequence[str],
        epochs: int,
        task: ValidationTask | None = None,
        weights: Sequence[Any] | None = None,
        stop_after: int | None = None,
        save_at_end: bool = True,
    ) -> BestWeights:
        """Fits the model, or continues where an earlier call was interrupted.

        Args:
            phase: name of the checkpoint, such as `fit` or `refit`.
            splits: splits to train on.
            epochs: largest number of epochs.
            task: validation queries, ranked after each epoch. None keeps the weights of the last
                epoch.
            weights: arrays or variables to start from, in the order of `model.weights`; None for
                the initial weights.
            stop_after: number of epochs after which this call returns; a later call with the same
                phase continues.
            save_at_end: whether the last epoch is always in the checkpoint. Otherwise a resumed
                run repeats the epochs after the last checkpoint, at most `LONGEST_INTERVAL`.

        Returns:
            The best weights, which are also assigned to `ranking_model`, and the history.

        Raises:
            UserError: the checkpoint is damaged, or a weight is not finite.
        """
        model, devices, training = self.model, self._devices, self._training
        batches = self._batches.with_splits(splits)
        validation_batches = None if task is None else self._batches.validation()
        self._start(batches.steps * epochs, weights)
        return_freed_memory()
        best_weights = BestWeights(
            None if task is None else training.monitor,
            None if task is None else training.patience,
            restore=False,
        )
        checkpoint = Checkpoint(
            self._options.directory / STATE / f"{phase}.npz",
            best_weights,
            training.save_every,
            # Hosts must save at the same steps, and have different clocks.
            None if devices.workers > 1 else BYTES_PER_SECOND,
            write=devices.is_chief,
        )
        checkpoint.restore(model)
        steps, first_epoch = batches.steps, checkpoint.epoch
        # The checkpoints of several starts are `fit_0` and so on.
        name = phase.partition("_")[0]
        with ProgressLines(name, steps, epochs, self._options.quiet) as progress:
            callbacks: list[keras.callbacks.Callback] = [best_weights]
            if task is not None:
                callbacks.insert(0, RankingValidation(task, self.ranking_model, self.scorer))
            callbacks += self._extra_callbacks(phase)
            callbacks += [checkpoint, progress]
            calls = CallbackCalls(callbacks, model, epochs, steps)
            iterator = iter(
                devices.read(batches, training.seed, first_epoch, epochs, checkpoint.step)
            )
            validation = None
            if validation_batches is not None:
                validation = devices.read(validation_batches, None)
            model.stop_training = False
            calls.on_train_begin()
            logs: dict[str, float] = {}
            next_trim = monotonic()
            for epoch in range(first_epoch, min(epochs, stop_after or epochs)):
                if model.stop_training:
                    break
                calls.on_epoch_begin(epoch)
                for step in range(checkpoint.step, steps):
                    if monotonic() > next_trim and not devices.has_gpus:
                        trim_allocators()  # otherwise memory grows from step to step
                        next_trim = monotonic() + _SECONDS_PER_TRIM
                    calls.on_train_batch_begin(step)
                    calls.on_train_batch_end(step, self._train_step(iterator))
                    if model.stop_training:
                        break
                logs = self._read_metrics()
                if validation_batches is not None and validation is not None:
                    logs |= self._validate(iter(validation), validation_batches.steps, calls)
                return_freed_memory()  # that the steps used
                calls.on_epoch_end(epoch, logs)
                return_freed_memory()  # that the checkpoint used
            if save_at_end:
                checkpoint.save_skipped()  # before a callback changes weights
            calls.on_train_end(logs)
        del iterator, validation
        return_freed_memory()  # datasets hold all texts
        assign_all(self.ranking_model.weights, best_weights.weights)
        return best_weights

    def initial_validation_loss(self) -> float:
        """The loss of the validation batches with the initial weights, to compare with `val_loss`.

        The weights of the model do not change. Every process must call it.

        Returns:
            The mean loss; infinity without a validation split.
        """
        batches = self._batches.validation()
        if batches is None:
            return math.inf
        variables = self.model.variables
        current = [np.array(keras.ops.convert_to_numpy(variable)) for variable in variables]
        assign_all(variables, self._initial_values)
        iterator = iter(self._devices.read(batches, None))
        for _ in range(batches.steps):
            self._test_step(iterator)
        loss = self._read_metrics()["loss"]
        assign_all(variables, current)
        return loss

    def _compile(self, total_steps: int) -> None:
        """Compiles the model and its steps, with a new optimizer for `total_steps` updates."""
        devices = self._devices
        with devices.strategy.scope():
            optimizer = build_optimizer(
                self._optimizer, total_steps, self._training.averaging, devices
            )
            self.model.compile(optimizer=optimizer, loss=self._loss)
            optimizer.build(self.model.trainable_variables)
            self._train_step = devices.distribute(self.model.train_step, self._xla)
            self._test_step = devices.distribute(self.model.test_step, self._xla)
            self._initial_optimizer_values = [
                self._shared_values(keras.ops.convert_to_numpy(variable))
                for variable in optimizer.variables
            ]
        self._total_steps = total_steps

    def _shared_values(self, values: np.ndarray) -> np.ndarray:
        """Equal values that take no additional memory, if all are 0 or equal an initial weight.

        Before training, most variables of an optimizer are 0, and moving averages equal weights.
        """
        if not values.any():
            return np.broadcast_to(values.dtype.type(0), values.shape)
        return next(
            (initial for initial in self._initial_values if np.array_equal(initial, values)), values
        )

    def _start(self, total_steps: int, weights: Sequence[Any] | None) -> None:
        """Sets the weights, and resets the optimizer for `total_steps` updates.

        Args:
            total_steps: updates of this training.
            weights: weights to start from; None for the initial weights.
        """
        model = self.model
        assign_all(model.variables, self._initial_values)
        if self._optimizer.depends_on_total_steps and total_steps != self._total_steps:
            self._compile(total_steps)
        assign_all(model.optimizer.variables, self._initial_optimizer_values)
        if isinstance(model.optimizer, ScheduledNesterov):
            model.optimizer.total_steps.assign(total_steps)
        if weights is not None:
            assign_all(model.weights, weights)

    def _extra_callbacks(self, phase: str) -> list[keras.callbacks.Callback]:
        """The callbacks of the options, and TensorBoard's if the options have a directory."""
        callbacks = list(self._options.callbacks)
        if self._options.tensorboard is not None and self._devices.is_chief:
            directory = str(self._options.tensorboard / phase)
            callbacks.append(keras.callbacks.TensorBoard(directory, write_graph=False))
        return callbacks

    def _validate(self, iterator: Any, step_count: int, calls: CallbackCalls) -> dict[str, float]:
        """Metrics of the validation batches, such as `val_loss`."""
        calls.on_test_begin()
        for step in range(step_count):
            calls.on_test_batch_begin(step)
            calls.on_test_batch_end(step, self._test_step(iterator))
        metrics = self._read_metrics()
        calls.on_test_end(metrics)
        return {f"val_{name}": value for name, value in metrics.items()}

    def _read_metrics(self) -> dict[str, float]:
        """Reads and resets the metrics, summed over all processes; each of them must call it."""
        results = self.model.get_metrics_result()
        metrics = {name: float(value) for name, value in results.items()}
        self.model.reset_metrics()
        return metrics


def build_optimizer(
    config: OptimizerOptions, total_steps: int, averaging: float, devices: Devices
) -> keras.optimizers.Optimizer:
    """The optimizer of a section, for the devices that share a step.

    Args:
        config: the section.
        total_steps: updates of the training, for schedules.
        averaging: momentum of a moving average of the weights; 0 keeps none.
        devices: the devices to train on.
    """
    optimizer = config.build(total_steps, averaging)
    if isinstance(optimizer, ScheduledNesterov) and devices.replicas > 1:
        optimizer.replicas = devices.replicas
        optimizer.sum_over_replicas = all_reduce_sum
    return optimizer
