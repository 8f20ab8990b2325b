"""The RNN and its gradient in float64, one word at a time.

Reference: Palangi et al. 2016, eq. 1; eq. 10 and 13.

Matrices act on column vectors: `W` is `(hidden, trigrams)`, `W_rec` `(hidden, hidden)`, `b`
`(hidden,)`.

The printed gradient is wrong in two places, as finite differences show:

- Appendix D has eq. 63 for the error signal of the input weights at every step. It is the formula
  of the last word (eq. 58) with the index of another word. The derivative is eq. 10 (59), which
  passes the error from step to step through `W_rec`. It applies to `W` (eq. 13) and `W_rec`
  (eq. 9).
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
    """The parameters of one side, under the names of Palangi et al. 2016."""

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
    all_states = [np.zeros_like(p.b)]
    for word in words:
        all_states.append(np.tanh(p.w @ word + p.rec @ all_states[-1] + p.b))
    return all_states


def encode(p: RNNParameters, words: Sequence[Array]) -> Array:
    """`y` at the last word; zeros for a text without words."""
    return states(p, words)[-1]


def gradient(
    p: RNNParameters, words: Sequence[Array], v: Array, steps: int | None = None
) -> RNNParameters:
    """Derivative by each parameter of a function of the last `y` whose derivative by `y` is `v`.

    Args:
        p: parameters.
        words: the vectors `l(t)` of the text.
        v: for the cosine, `v_Q` or `v_D` of eq. 15.
        steps: T, the number of last words that the error reaches; None: all.
    """
    y = states(p, words)
    total = RNNParameters(np.zeros_like(p.w), np.zeros_like(p.rec), np.zeros_like(p.b))
    delta = (1 - y[-1]) * (1 + y[-1]) * v  # eq. 11
    last = len(words)
    for tau in range(min(last, last if steps is None else steps)):
        t = last - tau
        total.w += np.outer(delta, words[t - 1])  # eq. 13
        total.rec += np.outer(delta, y[t - 1])  # eq. 9
        total.b += delta
        delta = (1 - y[t - 1]) * (1 + y[t - 1]) * (p.rec.T @ delta)  # eq. 10
    return total
