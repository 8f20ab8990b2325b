"""Pretrains the RBMs of DSE without labels, one at a time from the input to the output."""

from __future__ import annotations

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
from dssm_tf.dse.rbm import RBM, Tensor
from dssm_tf.dse.settings import Pretraining

_MAX_WEIGHT = 1e3
_EVALUATIONS = 10  # how often the likelihood of an RBM is computed
_EVALUATED_TEXTS = 1024

Callback = Callable[[str], object]
"""Called after every step with the training state as text, such as `RBM 1 of 3 (binary)`."""


def pretrain(
    tower: DSETower,
    bags: sparse.csr_matrix,
    settings: Pretraining,
    *,
    seed: int = 0,
    first: int = 0,
    callback: Callback = lambda _: None,
) -> None:
    """Trains the RBMs of a tower, each on the means of the hidden units of the one below.

    Args:
        tower: changed in place.
        bags: `(texts, words)`, entries from 0 to 1.
        settings: steps, rates and sizes.
        seed: seed of the order of the texts.
        first: index of the first RBM to train; those below do not change.
        callback: called `settings.steps` times for each RBM.

    Raises:
        UserError: an entry is not from 0 to 1, or an RBM diverges. The message has step and cause.
    """
    if not ((bags.data >= 0).all() and (bags.data <= 1).all()):
        raise UserError(
            f"RBM inputs go from {bags.data.min():.3g} to {bags.data.max():.3g}; expected 0 to 1. "
            "Use binary or normalized features."
        )
    visible: Bags = bags
    for index, rbm in enumerate(tower.rbms):
        if index >= first:
            name = f"RBM {index + 1} of {len(tower.rbms)} ({rbm.hidden_kind})"
            _train_rbm(rbm, visible, settings, seed, name, callback)
        if rbm is not tower.rbms[-1]:
            visible = encode(rbm, visible)


def _train_rbm(
    rbm: RBM, visible: Bags, settings: Pretraining, seed: int, name: str, callback: Callback
) -> None:
    """Contrastive divergence with momentum and weight decay."""
    count = visible.shape[0]
    gaussian = rbm.hidden_kind == "gaussian"
    rate = settings.gaussian_learning_rate if gaussian else settings.learning_rate
    optimizer = keras.optimizers.SGD(float(rate), momentum=settings.momentum)
    parameters = [rbm.kernel, rbm.hidden_bias, rbm.visible_bias]
    optimizer.build(parameters)
    random = np.random.default_rng(seed)

    def dense_texts(rows: NDArray[np.int64]) -> NDArray[Any]:
        return dense_rows(visible, rows).astype(rbm.compute_dtype, copy=False)

    sample = dense_texts(random.permutation(count)[:_EVALUATED_TEXTS])
    # With these biases and W = 0, a visible unit is on as often as in the data.
    frequency = np.clip(sample.mean(axis=0), 0.01, 0.99)
    rbm.visible_bias.assign(np.log(frequency / (1 - frequency)))

    @tf.function(reduce_retracing=True, autograph=False)
    def step(data: Tensor) -> Tensor:
        kernel, hidden_bias, visible_bias = rbm.contrastive_divergence(data)
        decay = settings.weight_decay * rbm.kernel
        optimizer.apply([decay - kernel, -hidden_bias, -visible_bias], parameters)
        return ops.max(ops.abs(rbm.kernel))

    state = name
    order = np.empty(0, dtype=np.int64)
    for done in range(1, settings.steps + 1):
        if len(order) < min(settings.batch_size, count):
            order = np.concatenate([order, random.permutation(count)])
        chosen, order = order[: settings.batch_size], order[settings.batch_size :]
        largest = float(step(dense_texts(chosen)))
        if not largest <= _MAX_WEIGHT:
            raise UserError(
                f"{name} diverged at step {done} of {settings.steps}: its largest weight is "
                f"{largest:.3g}. The learning rate {rate:g} is too high for its inputs; lower it."
            )
        if done * _EVALUATIONS // settings.steps > (done - 1) * _EVALUATIONS // settings.steps:
            state = f"{name}: log p {float(rbm.pseudo_log_likelihood(sample)):.1f}"
        callback(state)
