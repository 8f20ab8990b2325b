"""What DSE learns without labels: its RBMs, one by one from the bottom up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from numpy.typing import NDArray
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.networks import Bags, DSETower, dense_rows, encode
from dssm_tf.dse.rbm import RBM
from dssm_tf.dse.settings import Pretraining

_LARGEST_WEIGHT = 1e3
_LOOKS = 10  # at the likelihood, while an RBM is taught
_SAMPLE = 1024  # texts that are looked at

Told = Callable[[str], object]
"""Told after every step how it goes."""


def pretrain(
    tower: DSETower,
    bags: sparse.csr_matrix,
    settings: Pretraining,
    *,
    seed: int = 0,
    lower: DSETower | None = None,
    told: Told = lambda _: None,
) -> None:
    """Teaches the RBMs of a tower, each on the means of the hidden units of the one below.

    Args:
        tower: changed in place.
        bags: `(texts, words)`, entries from 0 to 1.
        settings: how.
        seed: of the order of the texts.
        lower: a pretrained tower of the same words and widths, whose binary RBMs are taken over
            instead of taught again: they do not know C.
        told: told of every step; there are `settings.steps` for every RBM that is taught.

    Raises:
        UserError: an entry is not from 0 to 1, or an RBM diverges: the step and the cause.
    """
    if not (np.isfinite(bags.data).all() and (bags.data >= 0).all() and (bags.data <= 1).all()):
        raise UserError(
            f"RBM inputs go from {bags.data.min():.3g} to {bags.data.max():.3g}; visible units "
            "take 0 to 1. Use binary or normalised features."
        )
    visible = bags
    for place, machine in enumerate(tower.machines):
        is_top = place == len(tower.machines) - 1
        if lower is not None and not is_top:
            machine.set_weights(lower.machines[place].get_weights())
        else:
            name = f"RBM {place + 1} of {len(tower.machines)} ({machine.hidden_kind})"
            _teach(machine, visible, settings, seed, name, told)
        if not is_top:
            visible = encode(machine, visible)


def _teach(
    machine: RBM,
    visible: Bags,
    settings: Pretraining,
    seed: int,
    name: str,
    told: Told,
) -> None:
    """Contrastive divergence with momentum and weight decay."""
    number = visible.shape[0]
    gaussian = machine.hidden_kind == "gaussian"
    rate = settings.gaussian_learning_rate if gaussian else settings.learning_rate
    optimizer = keras.optimizers.SGD(float(rate), momentum=settings.momentum)
    parameters = [machine.kernel, machine.hidden_bias, machine.visible_bias]
    optimizer.build(parameters)
    random = np.random.default_rng(seed)

    def texts(rows: NDArray[np.int64]) -> NDArray[Any]:
        return dense_rows(visible, rows).astype(machine.compute_dtype, copy=False)

    sample = texts(random.permutation(number)[:_SAMPLE])
    # A visible unit starts as often on as it is in the data, so that W need not say so.
    often = np.clip(sample.mean(axis=0), 0.01, 0.99)
    machine.visible_bias.assign(np.log(often / (1 - often)))

    @tf.function(reduce_retracing=True, autograph=False)
    def step(data):
        kernel, hidden_bias, visible_bias = machine.contrastive_divergence(data)
        decay = settings.weight_decay * machine.kernel
        optimizer.apply([decay - kernel, -hidden_bias, -visible_bias], parameters)
        return ops.max(ops.abs(machine.kernel))

    state = name
    order = np.empty(0, dtype=np.int64)
    for done in range(1, settings.steps + 1):
        if len(order) < min(settings.batch_size, number):
            order = np.concatenate([order, random.permutation(number)])
        chosen, order = order[: settings.batch_size], order[settings.batch_size :]
        largest = float(step(texts(chosen)))
        if not largest <= _LARGEST_WEIGHT:
            reached = f"{largest:.3g}" if math.isfinite(largest) else "no finite number"
            raise UserError(
                f"{name} diverged at step {done} of {settings.steps}: its largest weight is "
                f"{reached}. The learning rate {rate:g} is too high for its inputs; lower it."
            )
        if done * _LOOKS // settings.steps > (done - 1) * _LOOKS // settings.steps:
            state = f"{name}: log p {float(machine.pseudo_log_likelihood(sample)):.1f}"
        told(state)
