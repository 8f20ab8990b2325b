"""How much TensorFlow compiles before a training: XLA, and its rewriting of graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from dssm_tf.config import Config

# On CPUs XLA doubles the speed of large batches and quarters that of small ones, and compiling
# costs about ten seconds (tests/benchmarks/towers.py; a batch of 256 took 41 ms without, 182 with).
_XLA_BATCH_ON_CPU = 1024
_PAIRS_WORTH_COMPILING = 500_000


def use_xla(config: Config, pairs: int, parts: int) -> bool:
    """Whether XLA compiles the steps.

    Args:
        config: what `training.xla` asks for.
        pairs: that training reads in all epochs.
        parts: into how many a step is cut.
    """
    choice = config.training.xla
    if choice == "auto":
        if parts > 1:
            return False
        gpu = bool(tf.config.list_physical_devices("GPU"))
        large = config.training.batch_size >= _XLA_BATCH_ON_CPU and pairs >= _PAIRS_WORTH_COMPILING
        return gpu or large
    return choice


def is_small(config: Config, pairs: int) -> bool:
    """Whether training takes about as long as the compiling that would make it faster.

    Args:
        config: the number of epochs.
        pairs: of an epoch.
    """
    read = pairs * config.training.epochs
    return read < _PAIRS_WORTH_COMPILING and not tf.config.list_physical_devices("GPU")


@contextmanager
def graphs_as_traced(wanted: bool) -> Iterator[None]:
    """Spares TensorFlow's rewriting of graphs where `wanted`; the numbers are the same.

    For the gradients of recurrent towers that takes seconds, and no step is measurably faster
    for it.
    """
    name = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(name, False)
    tf.config.optimizer.set_experimental_options({name: wanted or before})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({name: before})
