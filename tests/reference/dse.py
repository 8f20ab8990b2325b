"""DSE's training and metric in float64, from Wu et al. 2014, sec. 2.2, 2.3 and 4.1.

Choices that the paper leaves open are arguments: how the learning rate falls, and whether a long
gradient is clipped. Each batch is one step. Weight decay applies to matrices only: in pretraining
as a term of the gradient, in fine-tuning as a fraction of the weights, without momentum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.reference.rbm import Machine, sigmoid

Array = NDArray[np.float64]

MOMENTUM = 0.9  # sec. 4.1, as is the weight decay
WEIGHT_DECAY = 1e-4


def train_rbm(start: Machine, batches: Iterable[Array], rate: float) -> Machine:
    """A machine after one step of CD-1 per batch, eq. 13, with visible units at their means.

    The hidden units of the chain are at their means too, so nothing is sampled.
    """
    W, c, b = start.W, start.c, start.b
    steps = [np.zeros_like(part) for part in (W, c, b)]
    for data in batches:
        machine = Machine(W, b, c, start.gaussian)
        model = machine.visible_mean(machine.hidden_mean(data))
        of_data, of_model = (np.array([machine.statistics(v) for v in rows], object)
                             for rows in (data, model))  # fmt: skip
        directions = list(of_data.mean(axis=0) - of_model.mean(axis=0))
        directions[0] = directions[0] - WEIGHT_DECAY * W
        steps = [MOMENTUM * s + rate * d for s, d in zip(steps, directions, strict=True)]
        W, c, b = (part + step for part, step in zip((W, c, b), steps, strict=True))
    return Machine(W, b, c, start.gaussian)


def activities(kernels: Sequence[Array], biases: Sequence[Array], texts: Array) -> list[Array]:
    """`[H^0, ..., H^L]`, sec. 2.1: sigmoid layers and a linear one on top."""
    layers = [texts]
    for index, (W, c) in enumerate(zip(kernels, biases, strict=True)):
        drive = layers[-1] @ W + c
        layers.append(drive if index == len(kernels) - 1 else sigmoid(drive))
    return layers


def margin_loss(scores: Array, counted: Array) -> float:
    """Eq. 14, tuple by tuple, divided by the number of tuples."""
    tuples = [
        max(0.0, 1 - scores[i, i] + scores[i, j]) for i, j in zip(*np.nonzero(counted), strict=True)
    ]
    return float(np.mean(tuples))


def margin_gradients(
    kernels: Sequence[Array], biases: Sequence[Array], queries: Array, titles: Array, counted: Array
) -> tuple[list[Array], list[Array]]:
    """Gradients of `margin_loss` by kernels and biases, eq. 19-25; title i answers query i."""
    layers = activities(kernels, biases, np.concatenate([queries, titles]))
    q, d = np.split(layers[-1], 2)
    scores = q @ d.T
    delta_q, delta_d = np.zeros_like(q), np.zeros_like(d)
    for i, j in zip(*np.nonzero(counted), strict=True):
        if 1 - scores[i, i] + scores[i, j] > 0:
            weight = 1 / counted.sum()
            delta_q[i] += weight * (d[j] - d[i])  # eq. 19
            delta_d[i] -= weight * q[i]
            delta_d[j] += weight * q[i]
    delta = np.concatenate([delta_q, delta_d])
    of_kernels, of_biases = [], []
    for index in reversed(range(len(kernels))):
        if index < len(kernels) - 1:
            delta = delta * layers[index + 1] * (1 - layers[index + 1])  # eq. 21 and 24
        of_kernels.insert(0, layers[index].T @ delta)  # eq. 21 and 22
        of_biases.insert(0, delta.sum(axis=0))
        delta = delta @ kernels[index].T  # eq. 24 and 25
    return of_kernels, of_biases


def fine_tuned(
    kernels: Sequence[Array],
    biases: Sequence[Array],
    batches: Sequence[tuple[Array, Array, Array]],
    rate: float,
    longest: float = np.inf,
) -> tuple[list[Array], list[Array]]:
    """Kernels and biases after one step of gradient descent with momentum per batch.

    Args:
        kernels: W of each layer.
        biases: c of each layer.
        batches: queries, titles, and the mask of tuples that count.
        rate: epsilon of the first step; it falls along half a cosine to 0 after the last.
        longest: largest norm of the gradient of all parameters together; longer ones are clipped.
    """
    kernels, biases = list(kernels), list(biases)
    steps = [np.zeros_like(part) for part in kernels + biases]
    for done, (queries, titles, counted) in enumerate(batches):
        epsilon = rate * (1 + np.cos(np.pi * done / len(batches))) / 2
        of_kernels, of_biases = margin_gradients(kernels, biases, queries, titles, counted)
        gradients = of_kernels + of_biases
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        scale = min(1.0, longest / norm) if norm else 1.0
        steps = [MOMENTUM * s - epsilon * scale * g for s, g in zip(steps, gradients, strict=True)]
        decayed = [W - epsilon * WEIGHT_DECAY * W for W in kernels] + biases
        updated = [part + step for part, step in zip(decayed, steps, strict=True)]
        kernels, biases = updated[: len(kernels)], updated[len(kernels) :]
    return kernels, biases


def rank_loss(scores: Array, relevant: NDArray[np.bool_], irrelevant: NDArray[np.bool_]) -> float:
    """Sec. 4: percentage of tuples in the wrong order; a tie is half wrong."""
    wrong, tuples = 0.0, 0
    for row, right, other in zip(scores, relevant, irrelevant, strict=True):
        lead = row[right][:, None] - row[other][None]
        wrong += (lead < 0).sum() + 0.5 * (lead == 0).sum()
        tuples += lead.size
    return float(100 * wrong / tuples)
