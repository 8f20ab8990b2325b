"""The skip-thought encoder and its likelihood, Kiros et al. 2015 eq. 1-10, in float64.

One sentence and one word at a time. Matrices are stored as in the published release, to be
multiplied from the left by row vectors. `{prefix}_W` `(dim_word, 2 dim)` has the columns of the
reset gate, then those of the update gate. `{prefix}_Wx` `(dim_word, dim)` is for the proposed
state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]


def random_encoder(words: int, units: int, seed: int, prefix: str = "encoder") -> dict[str, Array]:
    """Parameters of one direction."""
    random = np.random.default_rng(seed)
    shapes = {"W": (words, 2 * units), "b": (2 * units,), "U": (units, 2 * units)}
    shapes |= {"Wx": (words, units), "bx": (units,), "Ux": (units, units)}
    return {f"{prefix}_{key}": random.normal(0, 0.7, shape) for key, shape in shapes.items()}


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def states(
    word_vectors: Sequence[Array],
    parameters: Parameters,
    prefix: str = "encoder",
    reset: str = "after",
    condition: tuple[Array, Array] | None = None,
) -> list[Array]:
    """The state after each word.

    Args:
        word_vectors: one vector per word.
        parameters: named as in the release.
        prefix: chooses the direction.
        reset: "before" as in the paper's eq. 3, "after" as in the release.
        condition: for a decoder, the products of `(C_r, C_u)` and of `C` with the thought vector,
            eq. 5-7.
    """
    w, b, u = (parameters[f"{prefix}_{key}"] for key in ("W", "b", "U"))
    wx, bx, ux = (parameters[f"{prefix}_{key}"] for key in ("Wx", "bx", "Ux"))
    gate_condition, state_condition = condition or (0.0, 0.0)
    units = len(ux)
    h = np.zeros(units)
    all_states = []
    for x in word_vectors:
        gates = sigmoid(x @ w + b + h @ u + gate_condition)
        r, keep = gates[:units], gates[units:]
        recurrent = (r * h) @ ux if reset == "before" else r * (h @ ux)
        proposed = np.tanh(x @ wx + bx + recurrent + state_condition)
        h = keep * h + (1.0 - keep) * proposed
        all_states.append(h)
    return all_states


def thought(word_vectors: Sequence[Array], parameters: Parameters, reset: str = "after") -> Array:
    """The thought vector: of one direction, or of two if there are parameters `encoder_r_*`."""
    last = states(word_vectors, parameters, "encoder", reset)[-1]
    if "encoder_r_W" not in parameters:
        return last
    return np.concatenate([last, states(word_vectors[::-1], parameters, "encoder_r", reset)[-1]])


def negative_log_likelihood(
    decoder_states: Sequence[Array], words: Sequence[int], matrix: Array, bias: Array
) -> float:
    """Eq. 8 and 9: minus the sum of log P(word | words before it, thought), in nats."""
    total = 0.0
    for state, word in zip(decoder_states, words, strict=True):
        logits = state @ matrix + bias
        total += np.log(np.exp(logits).sum()) - logits[word]
    return total
