"""What a training runs on: devices and machines. Only this file knows `tf.distribute`."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.batches import Batches
from dssm_tf.model.siamese import Siamese


def read_cluster() -> tuple[int, int]:
    """This process's number and how many share each step, from `TF_CONFIG`; (0, 1) without it.

    Raises:
        UserError: it is not JSON with a cluster of workers and this task.
    """
    raw = os.environ.get("TF_CONFIG")
    if not raw:
        return 0, 1
    try:
        settings = json.loads(raw)
        count, task = len(settings["cluster"]["worker"]), settings["task"]
        if task["type"] != "worker" or not 0 <= int(task["index"]) < count:
            raise ValueError(f"task {task} is not one of the {count} workers")
        return int(task["index"]), count
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"TF_CONFIG is not usable ({error}); expected JSON with cluster.worker, a list "
            "of HOST:PORT, and task with type `worker` and index."
        ) from None


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
        strategy: the devices.
        worker: number of this process, from 0; the first, the chief, writes the files.
        workers: how many processes share each step.
    """

    strategy: tf.distribute.Strategy
    worker: int = 0
    workers: int = 1

    @classmethod
    def choose(cls) -> Devices:
        """Several workers, all local GPUs, several logical CPUs, or the plain default.

        To be called first: it configures TensorFlow's collectives and memory.

        Raises:
            UserError: `TF_CONFIG` is not usable.
        """
        reuse_memory()
        worker, workers = read_cluster()
        if workers > 1:
            return cls(tf.distribute.MultiWorkerMirroredStrategy(), worker, workers)
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        if len(devices) > 1:
            return cls(tf.distribute.MirroredStrategy([device.name for device in devices]))
        return cls(tf.distribute.get_strategy())

    @property
    def parts(self) -> int:
        """Into how many parts all devices cut a step."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def chief(self) -> bool:
        """Whether this process writes the files."""
        return self.worker == 0

    @property
    def gpus(self) -> bool:
        """Whether this process has GPUs."""
        return bool(tf.config.list_physical_devices("GPU"))

    def scope(self) -> AbstractContextManager[Any]:
        """Where variables are made."""
        plain = self.strategy is tf.distribute.get_strategy()
        return nullcontext() if plain else self.strategy.scope()

    def read(
        self, batches: Batches, seed: int | None, start: int = 0, stop: int = 1, step: int = 0
    ) -> Any:
        """This process's share of passes `start`, from a step on, to `stop`; see `Batches`."""
        layout = self.worker, self.workers, self.parts // self.workers

        def dataset(_: Any = None) -> tf.data.Dataset:
            return batches.epochs(seed, start, stop, *layout, step)

        return (
            dataset()
            if self.parts == 1
            else self.strategy.distribute_datasets_from_function(dataset)
        )


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


class Epochs(NamedTuple):
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
    if devices.workers > 1:
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

    def logs() -> dict[str, float]:
        # Reading a metric adds it up over the workers, so every one of them reads.
        return {name: float(value) for name, value in model.get_metrics_result().items()}

    model.stop_training = False
    iterator = iter(epochs.training)
    listeners.on_train_begin()
    for epoch in range(epochs.first, epochs.stop):
        model.reset_metrics()
        listeners.on_epoch_begin(epoch)
        for step in range(epochs.steps):
            listeners.on_train_batch_begin(step)
            train_step(iterator)
            listeners.on_train_batch_end(step, logs())
        found = logs()
        if epochs.validation is not None:
            model.reset_metrics()
            held_out = iter(epochs.validation)
            for _ in range(epochs.validation_steps):
                test_step(held_out)
            found |= {f"val_{name}": value for name, value in logs().items()}
        listeners.on_epoch_end(epoch, found)
        if model.stop_training:
            break
    model.optimizer.finalize_variable_values(model.trainable_weights)
    listeners.on_train_end()
