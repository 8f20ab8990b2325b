"""The forward pass of the LSTM-RNN in float64, one text and one word at a time.

Reference: Palangi et al. 2016, eq. 2.

Matrices act on column vectors as in the paper: `W_k` is `(cells, trigrams)`, `W_rec_k` is
`(cells, cells)`, peepholes and biases are `(cells,)`, with k = 1 output gate, 2 forget gate,
3 input gate, 4 cell input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class LSTMParameters:
    """The parameters of one side, under the names of Palangi et al. 2016."""

    w1: Array
    w2: Array
    w3: Array
    w4: Array
    rec1: Array
    rec2: Array
    rec3: Array
    rec4: Array
    p1: Array
    p2: Array
    p3: Array
    b1: Array
    b2: Array
    b3: Array
    b4: Array

    @classmethod
    def random(cls, trigrams: int, cells: int, seed: int) -> LSTMParameters:
        """Parameters large enough that every term of eq. 2 matters."""
        generator = np.random.default_rng(seed)
        shapes = {"w": (cells, trigrams), "rec": (cells, cells), "p": (cells,), "b": (cells,)}
        return cls(
            **{
                field.name: generator.normal(0, 0.6, shapes[field.name.rstrip("1234")])
                for field in fields(cls)
            }
        )

    def concatenated(self, kind: str, forget_gate: bool = True) -> Array:
        """`w`, `rec` or `b` of all gates, for products with row vectors, in the paper's order.

        Without forget gate, gate 2 is left out.
        """
        gates = (1, 2, 3, 4) if forget_gate else (1, 3, 4)
        return np.concatenate([getattr(self, f"{kind}{k}").T for k in gates], axis=-1)

    def peepholes(self, forget_gate: bool = True) -> Array:
        """`W_p1`, `W_p2` (with a forget gate) and `W_p3`, one per row."""
        return np.stack([self.p1, self.p2, self.p3] if forget_gate else [self.p1, self.p3])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def states(
    p: LSTMParameters,
    words: Sequence[Array],
    *,
    peepholes: bool = True,
    forget_gate: bool = True,
    start: tuple[Array, Array] | None = None,
) -> list[tuple[Array, Array]]:
    """`(y(t), c(t))` after each word; takes the arguments of `steps`."""
    all_steps = steps(p, words, peepholes=peepholes, forget_gate=forget_gate, start=start)
    return [(step["y"], step["c"]) for step in all_steps]


def steps(
    p: LSTMParameters,
    words: Sequence[Array],
    *,
    peepholes: bool = True,
    forget_gate: bool = True,
    start: tuple[Array, Array] | None = None,
) -> list[dict[str, Array]]:
    """The values of eq. 2 at each word, by name.

    Args:
        p: parameters.
        words: the vectors `l(t)` of the text.
        peepholes: without them, the terms with `W_p` are left out.
        forget_gate: without it, `f(t) = 1`: the LSTM that Palangi et al. 2016, sec. V trains.
        start: `(y(0), c(0))`; None for zeros.
    """
    y, c = start or (np.zeros_like(p.b1), np.zeros_like(p.b1))
    peephole_factor = 1.0 if peepholes else 0.0
    all_steps = []
    for word in words:
        y_g = np.tanh(p.w4 @ word + p.rec4 @ y + p.b4)
        i = sigmoid(p.w3 @ word + p.rec3 @ y + peephole_factor * p.p3 * c + p.b3)
        f = sigmoid(p.w2 @ word + p.rec2 @ y + peephole_factor * p.p2 * c + p.b2)
        c = (f if forget_gate else 1.0) * c + i * y_g
        o = sigmoid(p.w1 @ word + p.rec1 @ y + peephole_factor * p.p1 * c + p.b1)
        y = o * np.tanh(c)
        all_steps.append({"i": i, "f": f, "o": o, "c": c, "y": y})
        if not forget_gate:
            del all_steps[-1]["f"]
    return all_steps


def encode(p: LSTMParameters, words: Sequence[Array], **options: bool) -> Array:
    """`y(m)` at the last word, the semantic vector; zero for a text without words."""
    all_states = states(p, words, **options)
    return all_states[-1][0] if all_states else np.zeros_like(p.b1)
