"""The RNN of P16 eq. 1 and its gradient, eq. 10 and 13, one word at a time, in float64.

Matrices act on column vectors: `W` is `(hidden, trigrams)`, `W_rec` `(hidden, hidden)`, `b`
`(hidden,)`.

Of the printed gradient two things do not hold, as finite differences show:

- Appendix D writes the input weights' error signal of every step as eq. 63, the formula of the
  last word (eq. 58) with the index of another. Only eq. 10 (59), which carries the error from step
  to step through `W_rec`, is the derivative; it serves `W` (eq. 13) and `W_rec` (eq. 9) alike.
- Eq. 7 has a minus sign before a sum over `alpha`, which is negative already (eq. 8); the
  derivative of the loss is the sum without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class RNNParameters:
    """The parameters of one side, under the names of P16."""

    w: Array
    rec: Array
    b: Array

    @classmethod
    def random(cls, trigrams: int, hidden: int, seed: int) -> RNNParameters:
        """Parameters large enough that every term matters."""
        generator = np.random.default_rng(seed)
        return cls(
            generator.normal(0, 0.6, (hidden, trigrams)),
            generator.normal(0, 0.6, (hidden, hidden)),
            generator.normal(0, 0.6, hidden),
        )


def states(p: RNNParameters, words: Sequence[Array]) -> list[Array]:
    """`y(0), y(1), ...`: zeros, then after each word."""
    found = [np.zeros_like(p.b)]
    for word in words:
        found.append(np.tanh(p.w @ word + p.rec @ found[-1] + p.b))
    return found


def encode(p: RNNParameters, words: Sequence[Array]) -> Array:
    """`y` at the last word; zeros for a text without words."""
    return states(p, words)[-1]


def gradient(
    p: RNNParameters, words: Sequence[Array], v: Array, steps: int | None = None
) -> RNNParameters:
    """Derivative in each parameter of a function of the last `y` with derivative `v` in it.

    Args:
        p: parameters.
        words: the text.
        v: for the cosine `v_Q` or `v_D` of eq. 15.
        steps: T, the number of words back from the last that the error reaches; None: all.
    """
    y = states(p, words)
    found = RNNParameters(np.zeros_like(p.w), np.zeros_like(p.rec), np.zeros_like(p.b))
    delta = (1 - y[-1]) * (1 + y[-1]) * v  # eq. 11
    last = len(words)
    for tau in range(min(last, last if steps is None else steps)):
        t = last - tau
        found.w += np.outer(delta, words[t - 1])  # eq. 13
        found.rec += np.outer(delta, y[t - 1])  # eq. 9
        found.b += delta
        delta = (1 - y[t - 1]) * (1 + y[t - 1]) * (p.rec.T @ delta)  # eq. 10
    return found
