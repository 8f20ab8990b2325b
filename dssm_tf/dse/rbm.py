"""Restricted Boltzmann machine: a layer of DSE before fine-tuning."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import keras
from keras import ops

HiddenKind: TypeAlias = Literal["binary", "gaussian"]
Tensor: TypeAlias = Any
"""A tensor of any Keras backend."""


class RBM(keras.layers.Layer):
    """Binary visible units, fully connected to binary or Gaussian hidden units.

    Called as a layer, it is one feed-forward layer of DSE. It returns the mean of the hidden units
    given the visible ones: `sigmoid(c + v W)` for binary hidden units, `c + v W` for Gaussian
    ones. Unlike `keras.layers.Dense`, it also computes visible units from hidden ones, samples
    units, and computes the updates of contrastive divergence, which trains it without labels.

    Energies, with the Gaussian units' variance fixed at 1:

        binary    E(v, h) = -v W h - b v - c h
        Gaussian  E(v, h) = -v W h - b v + |h - c|^2 / 2

    Eq. 7 of Wu et al. 2014 as printed subtracts the last term. Then `exp(-E)` grows without bound
    with h, so there is no such distribution. Eq. 8 and 9 follow from the sign used here.

    Args:
        units: number of hidden units.
        hidden_kind: `"binary"` or `"gaussian"`.
        gibbs_steps: k of CD-k, the number of steps of Gibbs sampling.
        sample_visible_units: whether the chain's visible units are sampled, as in exact Gibbs
            sampling. By default, their means are used instead (mean-field reconstructions). Means
            are less noisy, and usual in deep stacks, whose inputs are means too.
        seed: seed of the sampling.

    Call arguments:
        visible: `(batch, words)`, each from 0 to 1.

    Returns:
        `(batch, units)`.

    Reference: Wu et al. 2014, eq. 3-13; Hinton 2002 for contrastive divergence.
    """

    def __init__(
        self,
        units: int,
        hidden_kind: HiddenKind = "binary",
        gibbs_steps: int = 1,
        sample_visible_units: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.hidden_kind = hidden_kind
        self.gibbs_steps = gibbs_steps
        self.sample_visible_units = sample_visible_units
        self.seed = seed
        self.random = keras.random.SeedGenerator(seed)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the weights: small normal W, zero biases (Wu et al. 2014, sec. 4.1).

        `dssm_tf.dse.pretraining.pretrain` sets the visible biases to the log-odds of the data.
        """
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], self.units),
            initializer=keras.initializers.RandomNormal(stddev=0.01, seed=self.seed),
        )
        self.hidden_bias = self.add_weight(
            name="hidden_bias", shape=(self.units,), initializer="zeros"
        )
        # Trained by contrastive divergence only: back-propagation never reaches it.
        self.visible_bias = self.add_weight(
            name="visible_bias", shape=(input_shape[-1],), initializer="zeros", trainable=False
        )
        self.built = True

    def hidden_input(self, visible: Tensor) -> Tensor:
        """`c + v W`: `(batch, units)`."""
        return ops.matmul(visible, self.kernel) + self.hidden_bias

    def call(self, visible: Tensor) -> Tensor:
        """Mean of the hidden units given the visible ones, eq. 6 and 9: `(batch, units)`."""
        drive = self.hidden_input(visible)
        return drive if self.hidden_kind == "gaussian" else ops.sigmoid(drive)

    hidden_mean = call

    def sample_hidden(self, mean: Tensor) -> Tensor:
        """Draws hidden units with the given means: 0 or 1, or normal with variance 1."""
        if self.hidden_kind == "gaussian":
            noise = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=self.random)
            return mean + noise
        return self._bernoulli(mean)

    def visible_mean(self, hidden: Tensor) -> Tensor:
        """Mean of the visible units given the hidden ones, eq. 5 and 8: `(batch, words)`."""
        drive = ops.matmul(hidden, ops.transpose(self.kernel)) + self.visible_bias
        return ops.sigmoid(drive)

    def gibbs(self, visible: Tensor) -> Tensor:
        """The visible units after `gibbs_steps` steps of Gibbs sampling from `visible`."""
        for _ in range(self.gibbs_steps):
            hidden = self.sample_hidden(self.hidden_mean(visible))
            visible = self.visible_mean(hidden)
            if self.sample_visible_units:
                visible = self._bernoulli(visible)
        return visible

    def contrastive_divergence(self, visible: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient of the log-likelihood, approximated by eq. 13.

        Returns:
            Updates of `kernel`, `hidden_bias` and `visible_bias`, each in the shape of its
            parameter: the mean statistics of the data minus those of the samples. Hidden units are
            replaced with their means, which have the same expectation and less noise.
        """
        return self.statistics_difference(visible, self.gibbs(visible))

    def statistics_difference(self, data: Tensor, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`<v h>`, `<h>` and `<v>` of the data, minus those of samples of the model.

        Args:
            data: visible units of the data, `(batch, words)`.
            samples: visible units that were sampled from the model, `(samples, words)`.
        """
        data_hidden, sample_hidden = self.hidden_mean(data), self.hidden_mean(samples)
        data_rows, sample_rows = (
            ops.cast(ops.shape(visible)[0], data.dtype) for visible in (data, samples)
        )
        kernel = (
            ops.matmul(ops.transpose(data), data_hidden) / data_rows
            - ops.matmul(ops.transpose(samples), sample_hidden) / sample_rows
        )
        hidden_bias = ops.mean(data_hidden, axis=0) - ops.mean(sample_hidden, axis=0)
        visible_bias = ops.mean(data, axis=0) - ops.mean(samples, axis=0)
        return kernel, hidden_bias, visible_bias

    def free_energy(self, visible: Tensor) -> Tensor:
        """`-log sum_h exp(-E(v, h))` in nats, `(batch,)`; for Gaussian units, an integral over h.

        With `x = v W`, it is `-b v - sum log(1 + exp(c + x))` for binary units. For Gaussian units,
        completing the square gives `-b v - sum(c x + x^2 / 2) - units / 2 log(2 pi)`.
        """
        bias = ops.matmul(visible, ops.expand_dims(self.visible_bias, -1))[:, 0]
        if self.hidden_kind == "gaussian":
            drive = ops.matmul(visible, self.kernel)
            inner = ops.sum(self.hidden_bias * drive + ops.square(drive) / 2, axis=-1)
            return -bias - inner - self.units / 2 * math.log(2 * math.pi)
        return -bias - ops.sum(ops.softplus(self.hidden_input(visible)), axis=-1)

    def pseudo_log_likelihood(self, visible: Tensor) -> Tensor:
        """The mean over rows of the pseudo-log-likelihood, a scalar in nats.

        The value of a row is the sum over its visible units of the log-probability of the unit
        given the others. It is estimated from one random unit, times the number of units. A unit
        with value v from 0 to 1 and the probability p of 1 contributes
        `v log p + (1 - v) log(1 - p)`.
        """
        rows, words = ops.shape(visible)[0], visible.shape[-1]
        units = keras.random.randint((rows,), 0, words, seed=self.random)
        chosen = ops.one_hot(units, words, dtype=visible.dtype)
        without = visible * (1 - chosen)
        log_odds = self.free_energy(without) - self.free_energy(without + chosen)
        value = ops.sum(visible * chosen, axis=-1)
        return words * ops.mean(value * log_odds - ops.softplus(log_odds))

    def _bernoulli(self, mean: Tensor) -> Tensor:
        uniform = keras.random.uniform(ops.shape(mean), dtype=mean.dtype, seed=self.random)
        return ops.cast(uniform < mean, mean.dtype)
