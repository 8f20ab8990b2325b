"""What a training runs on: devices and machines. Only this file knows `tf.distribute`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.batches import Batches


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


def reuse_memory() -> None:
    """Makes TensorFlow keep freed memory for the next step; before its first use of a device.

    XLA returns updated weights in fresh memory. Got from the system at every step, its pages
    took a third of the time of training `lstm`.
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

    def read(
        self,
        batches: Batches,
        seed: int | None,
        start: int = 0,
        stop: int = 1,
        step: int = 0,
    ) -> Any:
        """This process's share of passes `start`, from a step on, to `stop`; see `Batches`."""
        layout = self.worker, self.workers, self.parts // self.workers
        return self.strategy.distribute_datasets_from_function(
            lambda _: batches.epochs(seed, start, stop, *layout, step)
        )

    def step(self, step: Callable[[Any], Any], xla: bool) -> Callable[[Any], tf.Tensor]:
        """What takes a step of a model on the next batch, a part on each device, from an iterator.

        Differs from `keras.Model.fit`, which cannot train on several workers (keras issue 20585)
        nor begin within an epoch.

        Args:
            step: `train_step` or `test_step`.
            xla: whether XLA compiles it.

        Returns:
            A function of the iterator; it returns the loss of a part.
        """
        part = tf.function(step, reduce_retracing=True, autograph=False, jit_compile=xla)

        @tf.function(reduce_retracing=True, autograph=False)
        def next_step(batches: Any) -> tf.Tensor:
            metrics = self.strategy.run(part, args=(next(batches),))
            return self.strategy.experimental_local_results(metrics["loss"])[0]

        return next_step


def use_xla(config: Config, devices: Devices) -> bool:
    """Whether XLA compiles the steps: as `training.xla` says, or on a GPU.

    It does not compile the exchange of gradients between CPUs, or between workers. On CPUs it
    quarters the speed of batches of 256, and compiling costs about ten seconds.

    Args:
        config: the model and how to train it.
        devices: what trains.
    """
    xla = config.training.xla
    if devices.parts > 1:
        return xla is True and devices.gpus and devices.workers == 1
    return devices.gpus if xla == "auto" else xla


def all_reduce_sum(gradients: list[Any]) -> list[Any]:
    """Gradients summed over the replicas, inside a replica's step."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
