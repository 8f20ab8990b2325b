"""The devices and processes of a training. Only this file uses `tf.distribute`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.data.batches import Batches


class ClusterPosition(NamedTuple):
    """The index of this process, from 0, and the number of processes that train together."""

    worker: int
    workers: int


def read_cluster() -> ClusterPosition:
    """The position of this process in the cluster of `TF_CONFIG`; without it, the only process.

    Raises:
        UserError: `TF_CONFIG` is not JSON with a cluster of workers and this task.
    """
    raw = os.environ.get("TF_CONFIG")
    if not raw:
        return ClusterPosition(0, 1)
    try:
        settings = json.loads(raw)
        count, task = len(settings["cluster"]["worker"]), settings["task"]
        if task["type"] != "worker" or not 0 <= int(task["index"]) < count:
            raise ValueError(f"task {task} is not one of the {count} workers")
        return ClusterPosition(int(task["index"]), count)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"TF_CONFIG is not usable ({error}); expected JSON with cluster.worker, a list "
            "of HOST:PORT, and task with type `worker` and index."
        ) from None


@dataclass(frozen=True)
class Devices:
    """The processes that share each step, and the devices of each.

    Attributes:
        strategy: the devices.
        worker: index of this process; process 0, the chief, writes the files.
        workers: number of processes that share each step.
    """

    strategy: tf.distribute.Strategy
    worker: int = 0
    workers: int = 1

    @classmethod
    def choose(cls) -> Devices:
        """Several workers, all local GPUs, several logical CPUs, or the default device.

        Call it first, because it configures TensorFlow's collectives.

        Raises:
            UserError: `TF_CONFIG` is not usable.
        """
        worker, workers = read_cluster()
        if workers > 1:
            return cls(tf.distribute.MultiWorkerMirroredStrategy(), worker, workers)
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        if len(devices) > 1:
            return cls(tf.distribute.MirroredStrategy([device.name for device in devices]))
        return cls(tf.distribute.get_strategy())

    @property
    def replicas(self) -> int:
        """Devices that share a step, over all processes."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the files."""
        return self.worker == 0

    @property
    def has_gpus(self) -> bool:
        """Whether this process has GPUs."""
        return bool(tf.config.list_physical_devices("GPU"))

    def read(
        self,
        batches: Batches,
        seed: int | None,
        start: int = 0,
        stop: int = 1,
        first_step: int = 0,
    ) -> Any:
        """This process's batches of epochs `start` to `stop`; see `Batches.epochs`."""
        layout = self.worker, self.workers, self.replicas // self.workers
        return self.strategy.distribute_datasets_from_function(
            lambda _: batches.epochs(seed, start, stop, *layout, first_step)
        )

    def distribute(self, step: Callable[[Any], Any], xla: bool) -> Callable[[Any], tf.Tensor]:
        """A function that pulls one distributed batch and runs a step on every replica.

        Args:
            step: `train_step` or `test_step` of a model.
            xla: whether XLA compiles it.

        Returns:
            A function of an iterator over batches. It returns the loss of the first local replica.
        """
        replica_step = tf.function(step, reduce_retracing=True, autograph=False, jit_compile=xla)

        @tf.function(reduce_retracing=True, autograph=False)
        def next_step(batches: Any) -> tf.Tensor:
            metrics = self.strategy.run(replica_step, args=(next(batches),))
            return self.strategy.experimental_local_results(metrics["loss"])[0]

        return next_step

    def use_xla(self, xla: bool | Literal["auto"]) -> bool:
        """Whether XLA compiles the steps.

        XLA does not compile the exchange of gradients between CPUs, or between hosts. On CPUs, a
        step with a batch of 256 takes four times as long with XLA, and compiling takes about ten
        seconds.

        Args:
            xla: `training.xla` of the configuration; `auto` compiles on GPUs.
        """
        if self.replicas > 1:
            return xla is True and self.has_gpus and self.workers == 1
        return self.has_gpus if xla == "auto" else xla

    def use_sparse_products(self, xla: bool) -> bool:
        """Whether training sets `Siamese.set_sparse_products`: on CPUs, without XLA.

        Args:
            xla: whether XLA compiles the steps, see `use_xla`.
        """
        return not xla and not self.has_gpus


def all_reduce_sum(gradients: list[Any]) -> list[Any]:
    """Gradients summed over the replicas; to be called in a replica's step."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
