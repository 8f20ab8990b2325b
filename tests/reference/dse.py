"""DSE's training and measure in float64, as W14 writes them: sec. 2.2, 2.3 and 4.1.

What the paper leaves open is an argument here: how the learning rate falls and whether a long
gradient is cut. Of several batches, each is one step. Weight decay pulls at matrices alone: in
pretraining as a part of the gradient, in fine-tuning as a share of the weights, beside momentum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.reference.rbm import Machine, sigmoid

Array = NDArray[np.float64]

MOMENTUM = 0.9  # sec. 4.1, as is the weight decay
WEIGHT_DECAY = 1e-4


def taught(start: Machine, batches: Iterable[Array], rate: float) -> Machine:
    """A machine after a step a batch of CD-1, eq. 13, with visible units at their means.

    The hidden units of the chain are at their means as well: without any sampling.
    """
    W, c, b = start.W, start.c, start.b
    steps = [np.zeros_like(part) for part in (W, c, b)]
    for data in batches:
        machine = Machine(W, b, c, start.gaussian)
        model = machine.visible_mean(machine.hidden_mean(data))
        seen, dreamt = (np.array([machine.statistics(v) for v in rows], object)
                        for rows in (data, model))  # fmt: skip
        directions = list(seen.mean(axis=0) - dreamt.mean(axis=0))
        directions[0] = directions[0] - WEIGHT_DECAY * W
        steps = [MOMENTUM * s + rate * d for s, d in zip(steps, directions, strict=True)]
        W, c, b = (part + step for part, step in zip((W, c, b), steps, strict=True))
    return Machine(W, b, c, start.gaussian)


def activities(kernels: Sequence[Array], biases: Sequence[Array], texts: Array) -> list[Array]:
    """`[H^0, ..., H^L]`, sec. 2.1: sigmoid layers and a linear one on top."""
    layers = [texts]
    for place, (W, c) in enumerate(zip(kernels, biases, strict=True)):
        drive = layers[-1] @ W + c
        layers.append(drive if place == len(kernels) - 1 else sigmoid(drive))
    return layers


def margin_loss(scores: Array, counted: Array) -> float:
    """Eq. 14 tuple by tuple, over the number of tuples."""
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
            share = 1 / counted.sum()
            delta_q[i] += share * (d[j] - d[i])  # eq. 19
            delta_d[i] -= share * q[i]
            delta_d[j] += share * q[i]
    delta = np.concatenate([delta_q, delta_d])
    of_kernels, of_biases = [], []
    for place in reversed(range(len(kernels))):
        if place < len(kernels) - 1:
            delta = delta * layers[place + 1] * (1 - layers[place + 1])  # eq. 21 and 24
        of_kernels.insert(0, layers[place].T @ delta)  # eq. 21 and 22
        of_biases.insert(0, delta.sum(axis=0))
        delta = delta @ kernels[place].T  # eq. 24 and 25
    return of_kernels, of_biases


def fine_tuned(
    kernels: Sequence[Array],
    biases: Sequence[Array],
    batches: Sequence[tuple[Array, Array, Array]],
    rate: float,
    longest: float = np.inf,
) -> tuple[list[Array], list[Array]]:
    """Kernels and biases after a step of gradient descent with momentum for every batch.

    Args:
        kernels: W of each layer.
        biases: c of each layer.
        batches: queries, titles and which tuples count.
        rate: epsilon of the first step; it falls along half a cosine to 0 after the last.
        longest: length to which the gradient of all parameters together is cut.
    """
    kernels, biases = list(kernels), list(biases)
    steps = [np.zeros_like(part) for part in kernels + biases]
    for done, (queries, titles, counted) in enumerate(batches):
        epsilon = rate * (1 + np.cos(np.pi * done / len(batches))) / 2
        of_kernels, of_biases = margin_gradients(kernels, biases, queries, titles, counted)
        gradients = of_kernels + of_biases
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
        cut = min(1.0, longest / norm) if norm else 1.0
        steps = [MOMENTUM * s - epsilon * cut * g for s, g in zip(steps, gradients, strict=True)]
        decayed = [W - epsilon * WEIGHT_DECAY * W for W in kernels] + biases
        moved = [part + step for part, step in zip(decayed, steps, strict=True)]
        kernels, biases = moved[: len(kernels)], moved[len(kernels) :]
    return kernels, biases


def rank_loss(scores: Array, relevant: NDArray[np.bool_], irrelevant: NDArray[np.bool_]) -> float:
    """Sec. 4: the share of tuples in the wrong order, in per cent; a tie is half wrong."""
    wrong, tuples = 0.0, 0
    for row, right, other in zip(scores, relevant, irrelevant, strict=True):
        lead = row[right][:, None] - row[other][None]
        wrong += (lead < 0).sum() + 0.5 * (lead == 0).sum()
        tuples += lead.size
    return float(100 * wrong / tuples)
