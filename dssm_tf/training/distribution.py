"""Several devices and several machines; the only file that knows `tf.distribute`."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.data.dataset import ClickBatches
from dssm_tf.model.siamese import Siamese

_BYTES_KEPT = 256 << 20


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


def reuse_memory() -> None:
    """Makes TensorFlow keep freed memory for the next step; before its first use of a device.

    XLA returns updated weights in fresh memory. Got from the system at every step, its pages
    took a third of the time of training `lstm` (python -m tests.benchmarks.towers).
    """
    os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")


def choose_strategy(workers: Workers) -> tf.distribute.Strategy:
    """Several workers, all local GPUs, several logical CPUs, or the plain default.

    To be called first: it configures TensorFlow's collectives and memory.
    """
    reuse_memory()
    if workers.count > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def scope(strategy: tf.distribute.Strategy) -> AbstractContextManager[Any]:
    """Where a strategy's variables are made."""
    plain = strategy is tf.distribute.get_strategy()
    return nullcontext() if plain else strategy.scope()


def all_reduce_sum(gradients: list[Any]) -> list[Any]:
    """Gradients summed over the replicas, inside a replica's step."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)


def distributed(
    strategy: tf.distribute.Strategy,
    batches: ClickBatches,
    workers: Workers,
    replicas: int,
    seed: int,
    start: int,
    stop: int,
) -> Any:
    """Epochs `start` to `stop` of shuffled batches; one pass in order when both are 0.

    The pass in order, which is for validation after every epoch, is made once where it is small.
    """

    def dataset(_: Any = None) -> tf.data.Dataset:
        if stop:
            return batches.epochs(seed, start, stop, workers.index, workers.count, replicas)
        one_pass = batches.epoch(None, workers.index, workers.count, replicas)
        # Reading ahead meets the end of the pass, at which the cache is complete.
        return one_pass.cache().prefetch(1) if batches.most_bytes <= _BYTES_KEPT else one_pass

    if strategy.num_replicas_in_sync == 1:
        return dataset()
    return strategy.distribute_datasets_from_function(dataset)


@dataclass(frozen=True)
class Epochs:
    """What `fit` reads and how long.

    Attributes:
        training: distributed batches of all epochs.
        validation: a distributed pass, read anew after each epoch; None without.
        steps: of an epoch of `train` and, if there is one, of `validation`.
        first: epochs already done.
        stop: epochs in the end.
    """

    training: Any
    validation: Any
    steps: dict[str, int]
    first: int
    stop: int


def fit(
    model: Siamese,
    strategy: tf.distribute.Strategy,
    workers: Workers,
    epochs: Epochs,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Trains a compiled model, on whatever devices there are."""
    if workers.count > 1:
        _fit_several_workers(model, strategy, epochs, callbacks)
        return
    model.fit(
        epochs.training,
        initial_epoch=epochs.first,
        epochs=epochs.stop,
        steps_per_epoch=epochs.steps["train"],
        validation_data=epochs.validation,
        validation_steps=epochs.steps.get("validation"),
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
        callbacks, model=model, epochs=epochs.stop, steps=epochs.steps["train"]
    )

    @tf.function(reduce_retracing=True)
    def train_step(batches):
        strategy.run(model.train_step, args=(next(batches),))

    @tf.function(reduce_retracing=True)
    def test_step(batches):
        strategy.run(model.test_step, args=(next(batches),))

    model.stop_training = False
    iterator = iter(epochs.training)
    listeners.on_train_begin()
    for epoch in range(epochs.first, epochs.stop):
        model.reset_metrics()
        listeners.on_epoch_begin(epoch)
        for step in range(epochs.steps["train"]):
            listeners.on_train_batch_begin(step)
            train_step(iterator)
            # Reading a metric adds it up over the workers, so every one of them reads.
            listeners.on_train_batch_end(step, _numbers(model.get_metrics_result()))
        logs = _numbers(model.get_metrics_result())
        if epochs.validation is not None:
            model.reset_metrics()
            held_out = iter(epochs.validation)
            for _ in range(epochs.steps["validation"]):
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
