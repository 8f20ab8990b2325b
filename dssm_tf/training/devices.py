"""What a training runs on: devices and machines. Only this file knows `tf.distribute`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.batches import Batches
from dssm_tf.model.siamese import Siamese


@dataclass(frozen=True)
class Workers:
    """The processes that share each step, from `TF_CONFIG`."""

    index: int = 0
    count: int = 1

    @classmethod
    def from_environment(cls) -> Workers:
        """Reads `TF_CONFIG`; one worker where it is not set.

        Raises:
            UserError: it is not JSON with a cluster of workers and this task.
        """
        raw = os.environ.get("TF_CONFIG")
        if not raw:
            return cls()
        try:
            settings = json.loads(raw)
            count = len(settings["cluster"]["worker"])
            task = settings["task"]
            if task["type"] != "worker" or not 0 <= int(task["index"]) < count:
                raise ValueError(f"task {task} is not one of the {count} workers")
            return cls(int(task["index"]), count)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"TF_CONFIG is not usable ({error}); expected JSON with cluster.worker, a list "
                "of HOST:PORT, and task with type `worker` and index."
            ) from None

    @property
    def chief(self) -> bool:
        """Whether this process writes the files."""
        return self.index == 0


# On CPUs XLA doubles the speed of large batches and quarters that of small ones, and compiling
# costs about ten seconds (tests/benchmarks/towers.py; a batch of 256 took 41 ms without, 182 with).
_XLA_BATCH_ON_CPU = 1024
_PAIRS_WORTH_COMPILING = 500_000


def reuse_memory() -> None:
    """Makes TensorFlow keep freed memory for the next step; before its first use of a device.

    XLA returns updated weights in fresh memory. Got from the system at every step, its pages
    took a third of the time of training `lstm` (python -m tests.benchmarks.towers).
    """
    os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")


@dataclass(frozen=True)
class Devices:
    """What trains: the processes that share each step, and the devices of each.

    Attributes:
        workers: the processes.
        strategy: their devices.
    """

    workers: Workers
    strategy: tf.distribute.Strategy

    @classmethod
    def choose(cls) -> Devices:
        """Several workers, all local GPUs, several logical CPUs, or the plain default.

        To be called first: it configures TensorFlow's collectives and memory.

        Raises:
            UserError: `TF_CONFIG` is not usable.
        """
        reuse_memory()
        workers = Workers.from_environment()
        if workers.count > 1:
            return cls(workers, tf.distribute.MultiWorkerMirroredStrategy())
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        if len(devices) > 1:
            names = [device.name for device in devices]
            return cls(workers, tf.distribute.MirroredStrategy(names))
        return cls(workers, tf.distribute.get_strategy())

    @property
    def parts(self) -> int:
        """Into how many parts all devices cut a step."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def chief(self) -> bool:
        """Whether this process writes the files."""
        return self.workers.chief

    @property
    def gpus(self) -> bool:
        """Whether this process has GPUs."""
        return bool(tf.config.list_physical_devices("GPU"))

    def scope(self) -> AbstractContextManager[Any]:
        """Where variables are made."""
        plain = self.strategy is tf.distribute.get_strategy()
        return nullcontext() if plain else self.strategy.scope()

    def passes(self, batches: Batches, seed: int, start: int, stop: int, step: int = 0) -> Any:
        """This process's share of passes `start`, from a step on, to `stop`."""
        return self._shared(
            lambda worker, workers, replicas: batches.epochs(
                seed, start, stop, worker, workers, replicas, step
            )
        )

    def one_pass(self, batches: Batches) -> Any:
        """This process's share of one pass, in order."""
        return self._shared(lambda *layout: batches.epochs(None, 0, 1, *layout))

    def _shared(self, make: Callable[[int, int, int], tf.data.Dataset]) -> Any:
        workers = self.workers

        def dataset(_: Any = None) -> tf.data.Dataset:
            return make(workers.index, workers.count, self.parts // workers.count)

        if self.parts == 1:
            return dataset()
        return self.strategy.distribute_datasets_from_function(dataset)


def use_xla(config: Config, pairs: int, devices: Devices) -> bool:
    """Whether XLA compiles the steps: as `training.xla` says, or where that pays.

    Args:
        config: the model and how to train it.
        pairs: of an epoch.
        devices: what trains.
    """
    training = config.training
    if training.xla != "auto":
        return training.xla
    if devices.parts > 1:
        return False
    large = training.batch_size >= _XLA_BATCH_ON_CPU
    return devices.gpus or (large and pairs * training.epochs >= _PAIRS_WORTH_COMPILING)


def all_reduce_sum(gradients: list[Any]) -> list[Any]:
    """Gradients summed over the replicas, inside a replica's step."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)


@dataclass(frozen=True)
class Epochs:
    """What `fit` reads and how long.

    Attributes:
        training: distributed batches of all epochs.
        validation: a distributed pass, read anew after each epoch; None without.
        steps: batches of an epoch.
        validation_steps: batches of the validation pass.
        first: epochs already done.
        stop: epochs in the end.
    """

    training: Any
    validation: Any
    steps: int
    validation_steps: int
    first: int
    stop: int


def fit(
    model: Siamese,
    devices: Devices,
    epochs: Epochs,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Trains a compiled model, on whatever devices there are."""
    if devices.workers.count > 1:
        _fit_several_workers(model, devices.strategy, epochs, callbacks)
        return
    model.fit(
        epochs.training,
        initial_epoch=epochs.first,
        epochs=epochs.stop,
        steps_per_epoch=epochs.steps,
        validation_data=epochs.validation,
        validation_steps=epochs.validation_steps or None,
        callbacks=callbacks,
        verbose=0,
        shuffle=False,
    )


def _fit_several_workers(
    model: Siamese,
    strategy: tf.distribute.Strategy,
    epochs: Epochs,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """`fit` for MultiWorkerMirroredStrategy.

    Keras 3's own takes the distributed data set for a generator and then reduces the metrics
    of a step along an axis they do not have (keras issue 20585); its `train_step` works.
    """
    listeners = keras.callbacks.CallbackList(
        callbacks, model=model, epochs=epochs.stop, steps=epochs.steps
    )

    @tf.function(reduce_retracing=True, autograph=False)
    def train_step(batches):
        strategy.run(model.train_step, args=(batches.get_next(),))

    @tf.function(reduce_retracing=True, autograph=False)
    def test_step(batches):
        strategy.run(model.test_step, args=(batches.get_next(),))

    model.stop_training = False
    iterator = iter(epochs.training)
    listeners.on_train_begin()
    for epoch in range(epochs.first, epochs.stop):
        model.reset_metrics()
        listeners.on_epoch_begin(epoch)
        for step in range(epochs.steps):
            listeners.on_train_batch_begin(step)
            train_step(iterator)
            # Reading a metric adds it up over the workers, so every one of them reads.
            listeners.on_train_batch_end(step, _numbers(model.get_metrics_result()))
        logs = _numbers(model.get_metrics_result())
        if epochs.validation is not None:
            model.reset_metrics()
            held_out = iter(epochs.validation)
            for _ in range(epochs.validation_steps):
                test_step(held_out)
            found = _numbers(model.get_metrics_result())
            logs |= {f"val_{name}": value for name, value in found.items()}
        listeners.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    model.optimizer.finalize_variable_values(model.trainable_weights)
    listeners.on_train_end()


def _numbers(logs: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items()}
