"""The gradients of the LSTM-RNN in float64, as printed.

Reference: Palangi et al. 2016, appendix A, eq. 16 to 44.

Eq. 16 to 42 have all terms inside a cell, `c(t) = f(t) c(t-1) + i(t) y_g(t)`, for the last word.
Eq. 43 and 44 send the error of each gate back to earlier words through `y(t-1)` and that gate's
`W_rec`. They leave out the terms from one gate to another and through `c(t-1)` and the peepholes,
and eq. 44 has no derivative of the gate that reads `y(t-1)`. So the gradients equal the derivative
only where `W_rec` and `W_p` are zero, as finite differences show. The towers are trained with the
full derivative.

Where the printed formulas are inconsistent, the form with matching dimensions is used:

- eq. 24, 32 and 40 (and 90, 100, 110) have `x(t)` where `W_k` multiplies `l(t) = W_h x(t)`;
- eq. 23 has W_2 for W_3 and eq. 27 b_2 for b_3 in the last term of our copy of the journal; eq. 89
  and 93, the same formulas, do not;
- eq. 36 and 104 have b_3 for b_2 in the derivative of `c(t-1)`;
- eq. 85 and 88 compute the derivative of `c(t)` recursively, so eq. 21 uses that of the last word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.reference.peephole_lstm import LSTMParameters, sigmoid

Array = NDArray[np.float64]


def printed_gradients(
    p: LSTMParameters, words: Sequence[Array], v: Array, *, errors_of_earlier_words: bool = False
) -> dict[str, Array]:
    """The derivatives of R with respect to one side's parameters, by field of `LSTMParameters`.

    Args:
        p: parameters of the side.
        words: `l(1) .. l(t)`, at least one.
        v: `v_Q` or `v_D`, eq. 15.
        errors_of_earlier_words: whether to add the terms of earlier words with the errors of eq.
            43 and 44.
    """
    steps: list[tuple[Array, Array, Array, Array, Array, dict[str, Array]]] = []
    y = np.zeros_like(p.b1)
    c = np.zeros_like(p.b1)
    kinds = ("w", "rec", "p", "b")
    # Derivatives of c(t) with respect to the parameters of the forget gate (2), the input gate
    # (3) and the cell input (4).
    derivatives = {
        f"{kind}{k}": np.zeros_like(getattr(p, f"{kind}{k}"))
        for k in (2, 3, 4)
        for kind in kinds
        if (kind, k) != ("p", 4)
    }
    for word in words:
        y_before, c_before = y, c
        y_g = np.tanh(p.w4 @ word + p.rec4 @ y + p.b4)
        i = sigmoid(p.w3 @ word + p.rec3 @ y + p.p3 * c + p.b3)
        f = sigmoid(p.w2 @ word + p.rec2 @ y + p.p2 * c + p.b2)
        c = f * c + i * y_g
        o = sigmoid(p.w1 @ word + p.rec1 @ y + p.p1 * c + p.b1)
        y = o * np.tanh(c)
        errors = {
            2: c_before * f * (1 - f),  # b_f, eq. 30
            3: y_g * i * (1 - i),  # b_i, eq. 22
            4: i * (1 - y_g) * (1 + y_g),  # b_g, eq. 38
        }
        for name, derivative in derivatives.items():
            kind, error = name[:-1], errors[int(name[-1])]
            new_term = _outer(kind, error, word, y_before, c_before)
            derivatives[name] = (f[:, None] if derivative.ndim == 2 else f) * derivative + new_term
        steps.append((word, y_before, c, o, np.tanh(c), dict(derivatives)))
    errors_of_gates = dict.fromkeys((1, 2, 3, 4), v)
    gradients: dict[str, Array] = {}
    for word, y_before, c, o, h, by_name in reversed(steps):
        # The errors of the gates: eq. 17 and 22, and for earlier words eq. 43 and 44.
        deltas = {k: (1 - h) * (1 + h) * o * errors_of_gates[k] for k in (2, 3, 4)}
        deltas[1] = o * (1 - o) * h * errors_of_gates[1]
        terms = {
            name: (
                deltas[int(name[-1])][:, None] if derivative.ndim == 2 else deltas[int(name[-1])]
            )
            * derivative
            for name, derivative in by_name.items()
        }
        for kind in kinds:  # eq. 16, 18, 19, 20: the output gate reads c(t), the others c(t-1)
            terms[f"{kind}1"] = _outer(kind, deltas[1], word, y_before, c)
        gradients = {name: gradients.get(name, 0.0) + term for name, term in terms.items()}
        if not errors_of_earlier_words:
            break
        errors_of_gates = {k: getattr(p, f"rec{k}").T @ delta for k, delta in deltas.items()}
    return gradients


def _outer(kind: str, error: Array, word: Array, y: Array, c: Array) -> Array:
    """The error times the value that the parameter multiplies."""
    if kind == "w":
        return np.outer(error, word)
    if kind == "rec":
        return np.outer(error, y)
    return error * c if kind == "p" else error
