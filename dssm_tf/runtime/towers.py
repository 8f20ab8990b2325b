"""The towers of `dssm_tf.towers` in NumPy, without their first layer.

A tower is built from the arrays of a Keras tower, by their Keras names. Its input is a list:
`steps[t]`, `(texts with more than t words, units)`, has the output of the first layer (the product
with the first matrix, plus `constant`) for the t-th word of each text, the longest text first. The
output is the semantic vectors `(texts, dimension)`, not yet of length 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.runtime.trained_ranker import Vectors
from dssm_tf.runtime.vector_ranker import normalize_vectors

Steps = Sequence[Vectors]
NamedArrays = Mapping[str, Vectors]


def pool(operation: np.ufunc, steps: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Reduces the words of each text by a function such as `np.maximum`: `(texts, ...)`."""
    result = steps[0].copy()
    for step in steps[1:]:
        longer_texts = result[: len(step)]
        operation(longer_texts, step, out=longer_texts)
    return result


class FeedForward:
    """DSSM: the sum of the words, then tanh layers.

    Args:
        arrays: `bias`, then `semantic_1/kernel`, `semantic_1/bias` and so on.

    Reference: Shen et al. 2014, sec. 2.3.
    """

    constant: Vectors = np.zeros(1, np.float32)

    def __init__(self, arrays: NamedArrays, tower: Mapping[str, Any]) -> None:
        self._bias = arrays["bias"]
        self._layers = [
            (arrays[f"semantic_{i}/kernel"], arrays[f"semantic_{i}/bias"])
            for i in range(1, len(tower["widths"]))
        ]

    def __call__(self, steps: Steps) -> Vectors:
        """Vectors `(texts, widths[-1])`."""
        vectors = np.tanh(pool(np.add, steps) + self._bias)
        for kernel, bias in self._layers:
            vectors = np.tanh(vectors @ kernel + bias)
        return vectors


class SumOfWords:
    """Words: the sum of the words' unit vectors.

    Args:
        arrays: empty; the first matrix is all that the tower has.

    Reference: Huang et al. 2013, sec. 3.2.
    """

    constant: Vectors = np.zeros(1, np.float32)

    def __init__(self, arrays: NamedArrays, tower: Mapping[str, Any]) -> None:
        del arrays, tower

    def __call__(self, steps: Steps) -> Vectors:
        """Vectors `(texts, units)`."""
        return pool(np.add, [normalize_vectors(step) for step in steps])


class Convolution:
    """CLSM: windows of words, the maximum over the text, tanh layers.

    Args:
        arrays: `convolution/padding_word` if the window has several words, then
            `semantic_1/kernel` and so on.

    Reference: Shen et al. 2014, sec. 3, eq. 1-3.
    """

    constant: Vectors = np.zeros(1, np.float32)

    def __init__(self, arrays: NamedArrays, tower: Mapping[str, Any]) -> None:
        self._shape = (-1, tower["window"], tower["features"])
        reach = tower["window"] // 2
        shifts = (*range(-reach, 0), *range(1, reach + 1))
        paddings = arrays["convolution/padding_word"] if reach else ()
        self._reach, self._paddings = reach, [*zip(shifts, paddings, strict=True)]
        self._layers = [arrays[f"semantic_{i}/kernel"] for i in range(1, 1 + len(tower["widths"]))]

    def __call__(self, steps: Steps) -> Vectors:
        """Vectors `(texts, widths[-1])`."""
        blocks = [step.reshape(self._shape) for step in steps]
        windows = [self._window(blocks, t) for t in range(len(blocks))]
        vectors = np.tanh(pool(np.maximum, windows))
        for kernel in self._layers:
            vectors = np.tanh(vectors @ kernel)
        return vectors

    def _window(self, blocks: Steps, t: int) -> Vectors:
        """`W_c l_t` of the t-th words, `(texts with more than t words, features)`."""
        total = blocks[t][:, self._reach].copy()
        for shift, padding in self._paddings:
            inside = 0 <= t + shift < len(blocks)
            neighbors = blocks[t + shift] if inside else blocks[t][:0]
            neighbors = neighbors[: len(total), self._reach + shift]
            total[: len(neighbors)] += neighbors
            total[len(neighbors) :] += padding
        return total


class Recurrence:
    """RNN and LSTMs: a recurrent cell that reads the words in one or two directions.

    Args:
        arrays: `recurrent_kernel`, `bias` and `peephole_kernel` under the name of each direction.
        cell: `_TanhCell` or `_LSTMCell`.
        directions: the names of the directions; the second reads right to left.

    Reference: Palangi et al. 2016, eq. 1 and 2.
    """

    def __init__(
        self,
        arrays: NamedArrays,
        tower: Mapping[str, Any],
        cell: Any,
        directions: Sequence[str] = ("recurrence",),
    ) -> None:
        self._cells = [cell(arrays, name, tower) for name in directions]
        # The bias is added once per word, so the cached word vectors include it.
        self.constant = np.concatenate([arrays[f"{name}/bias"] for name in directions])

    def __call__(self, steps: Steps) -> Vectors:
        """Vectors `(texts, directions * units)`."""
        if len(self._cells) == 1:
            return self._read(self._cells[0], steps)
        halves = [np.split(step, 2, axis=1) for step in steps]
        left_to_right, right_to_left = self._cells
        both = (
            self._read(left_to_right, [left for left, _ in halves]),
            self._read(right_to_left, [right for _, right in reversed(halves)]),
        )
        return np.concatenate(both, axis=1)

    def _read(self, cell: Any, steps: Steps) -> Vectors:
        """`y` after the last word of each text; from right to left, shorter texts start later."""
        texts = max(len(steps[0]), len(steps[-1]))
        y, c = np.zeros((2, texts, len(cell.kernel)), np.float32)
        for step in steps:
            previous = y[: len(step)]
            previous[:] = cell(step, previous, c[: len(step)])
        return y


class _TanhCell:
    """`y(t) = tanh(W l(t) + W_rec y(t-1) + b)`."""

    def __init__(self, arrays: NamedArrays, name: str, tower: Mapping[str, Any]) -> None:
        self.kernel = arrays[f"{name}/recurrent_kernel"]

    def __call__(self, net: Vectors, y: Vectors, c: Vectors) -> Vectors:
        """The next `y`, `(texts, units)`.

        Args:
            net: `W l(t) + b`.
            y: the output at the previous word.
            c: the cell state; changed in place.
        """
        return np.tanh(net + y @ self.kernel)


class _LSTMCell:
    """One LSTM step; see `PeepholeLSTMCell`, whose blocks are o, f (if learned), i and g."""

    def __init__(self, arrays: NamedArrays, name: str, tower: Mapping[str, Any]) -> None:
        self.kernel = arrays[f"{name}/recurrent_kernel"]
        self._forget_gate = tower["forget_gate"]
        self._peepholes = arrays.get(f"{name}/peephole_kernel", np.zeros((4, 1), np.float32))

    # The exponential of a closed gate may overflow; 1 / infinity = 0 is correct.
    @np.errstate(over="ignore")
    def __call__(self, net: Vectors, y: Vectors, c: Vectors) -> Vectors:
        """The next `y`, see `_TanhCell`."""
        blocks = (net + y @ self.kernel).reshape(len(net), -1, len(self.kernel))
        o, g = blocks[:, 0], np.tanh(blocks[:, -1])
        gates = _sigmoid(blocks[:, 1:-1] + self._peepholes[1 : blocks.shape[1] - 1] * c[:, None])
        if self._forget_gate:
            c *= gates[:, 0]
        c += gates[:, -1] * g
        return _sigmoid(o + self._peepholes[0] * c) * np.tanh(c)


def _sigmoid(x: Vectors) -> Vectors:
    """`1 / (1 + exp(-x))`."""
    return np.float32(1) / (np.float32(1) + np.exp(-x))


TOWERS: Mapping[str, Callable[..., Any]] = {
    "dssm": FeedForward,
    "clsm": Convolution,
    "rnn": partial(Recurrence, cell=_TanhCell),
    "lstm": partial(Recurrence, cell=_LSTMCell),
    "words": SumOfWords,
    "bilstm": partial(Recurrence, cell=_LSTMCell, directions=("left_to_right", "right_to_left")),
}
"""Constructors by the name of the tower: from its arrays, without the first matrix, and its
configuration."""
