"""The towers of `dssm_tf.towers` in NumPy, from the first layer's words on.

A tower here is made of the arrays of one there, by their Keras names, and takes

    words    (all words, units)  what the first matrix and `constant` make of each word, the texts'
                                 words one after another
    starts   (texts,)            where each text's words begin
    lengths  (texts,)            how many there are, 1 at least

and gives the texts' semantic vectors `(texts, dimension)`, not yet of length 1. Texts of the same
length stand together: what is done at a word is done for all texts that have it, as one product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Places = NDArray[np.intp]
Arrays = Mapping[str, Vectors]


class Tower(Protocol):
    """What turns hashed words into semantic vectors."""

    constant: Vectors
    """What the table adds to every word, `(units,)` or one number."""

    def __call__(self, words: Vectors, starts: Places, lengths: Places) -> Vectors:
        """Vectors `(texts, dimension)`; see the head of this file."""
        ...


def pool(how: np.ufunc, words: Vectors, starts: Places, lengths: Places) -> Vectors:
    """The sum or the maximum of each text's words, `(texts, units)`."""
    if len(starts) == 1:  # all words are of this text
        whole: Vectors = how.reduce(words, axis=0, keepdims=True)
        return whole
    found = words.take(starts, axis=0)
    for t, count in enumerate(texts_by_words(lengths)):
        if t:
            how(found[:count], words.take(starts[:count] + t, axis=0), out=found[:count])
    return found


def texts_by_words(lengths: Places) -> list[int]:
    """How many texts have more than 0, 1, ... words; lengths fall."""
    counts = len(lengths) - lengths[::-1].searchsorted(np.arange(lengths[0]), side="right")
    found: list[int] = counts.tolist()
    return found


class FeedForward:
    """DSSM: the sum of the words, then tanh layers.

    Args:
        arrays: `bias`, then `semantic_1/kernel`, `semantic_1/bias` and so on.

    Reference: Shen et al. 2014, sec. 2.3.
    """

    constant: Vectors = np.zeros(1, np.float32)

    def __init__(self, arrays: Arrays, tower: Mapping[str, Any]) -> None:
        self._bias = arrays["bias"]
        self._layers = [
            (arrays[f"semantic_{i}/kernel"], arrays[f"semantic_{i}/bias"])
            for i in range(1, len(tower["widths"]))
        ]

    def __call__(self, words: Vectors, starts: Places, lengths: Places) -> Vectors:
        """Vectors `(texts, widths[-1])`."""
        vectors: Vectors = np.tanh(pool(np.add, words, starts, lengths) + self._bias)
        for kernel, bias in self._layers:
            vectors = np.tanh(vectors @ kernel + bias)
        return vectors


class Convolution:
    """CLSM: windows of words, the maximum over the text, tanh layers.

    Args:
        arrays: `convolution/padding_word` where the window has several words, then
            `semantic_1/kernel` and so on.

    Reference: Shen et al. 2014, sec. 3, eq. 1-3.
    """

    constant: Vectors = np.zeros(1, np.float32)

    def __init__(self, arrays: Arrays, tower: Mapping[str, Any]) -> None:
        self._window = tower["window"]
        self._features = tower["features"]
        self._padding_word = arrays.get("convolution/padding_word")
        self._layers = [arrays[f"semantic_{i}/kernel"] for i in range(1, 1 + len(tower["widths"]))]

    def __call__(self, words: Vectors, starts: Places, lengths: Places) -> Vectors:
        """Vectors `(texts, widths[-1])`."""
        vectors: Vectors = np.tanh(
            pool(np.maximum, self._windows(words, starts, lengths), starts, lengths)
        )
        for kernel in self._layers:
            vectors = np.tanh(vectors @ kernel)
        return vectors

    def _windows(self, words: Vectors, starts: Places, lengths: Places) -> Vectors:
        """`W_c l_t` of each word, `(all words, features)`."""
        reach = self._window // 2
        blocks = words.reshape(len(words), self._window, self._features)
        total: Vectors = blocks[:, reach].copy()
        if self._padding_word is None:
            return total
        order, place = starts.argsort(), np.arange(len(words))
        text = np.repeat(order, lengths[order])
        shifts = (*range(-reach, 0), *range(1, reach + 1))
        for shift, padding in zip(shifts, self._padding_word, strict=True):
            other = (place + shift).clip(0, len(words) - 1)
            inside = (other == place + shift) & (text[other] == text)
            total[inside] += blocks[other[inside], reach + shift]
            total[~inside] += padding
        return total


class Recurrence:
    """RNN and the LSTMs: a cell that reads the words one after another, in one direction or two.

    Args:
        arrays: of each direction its `recurrent_kernel`, `bias` and `peephole_kernel`, below the
            name of the direction.
        cell: `_TanhCell` or `_LSTMCell`.
        directions: their names, and whether they read right to left.

    Reference: Palangi et al. 2016, eq. 1 and 2.
    """

    def __init__(
        self,
        arrays: Arrays,
        tower: Mapping[str, Any],
        cell: Any,
        directions: Mapping[str, bool] = {"recurrence": False},
    ) -> None:
        own = [
            {key.removeprefix(f"{name}/"): array for key, array in arrays.items()}
            for name in directions
        ]
        self._cells = [cell(one, tower) for one in own]
        self._backwards = list(directions.values())
        # Every word reads the bias once, so the table of words holds it added.
        self.constant: Vectors = np.concatenate([one["bias"] for one in own])

    def __call__(self, words: Vectors, starts: Places, lengths: Places) -> Vectors:
        """Vectors `(texts, directions * units)`."""
        parts = np.split(words, len(self._cells), axis=1)
        last = [
            self._read(cell, part, starts + (lengths - 1) * backwards, lengths, 1 - 2 * backwards)
            for cell, part, backwards in zip(self._cells, parts, self._backwards, strict=True)
        ]
        return last[0] if len(last) == 1 else np.concatenate(last, axis=1)

    def _read(
        self, cell: Any, inputs: Vectors, firsts: Places, lengths: Places, step: int
    ) -> Vectors:
        """`y` after each text's last word; firsts are where texts begin, the longest first."""
        y, c = (np.zeros((len(firsts), len(cell.kernel)), np.float32) for _ in range(2))
        for t, count in enumerate(texts_by_words(lengths)):
            net = inputs.take(firsts[:count] + step * t, axis=0)
            # Before the first word y is zero.
            recurrent = y[:count] @ cell.kernel if t else np.zeros((1, net.shape[1]), np.float32)
            y[:count] = cell(net, recurrent, y[:count], c[:count])
        return y


class _TanhCell:
    """`y(t) = tanh(W l(t) + W_rec y(t-1) + b)`."""

    def __init__(self, arrays: Arrays, tower: Mapping[str, Any]) -> None:
        self.kernel = arrays["recurrent_kernel"]

    def __call__(self, net: Vectors, recurrent: Vectors, y: Vectors, c: Vectors) -> Vectors:
        """The next `y`, `(texts, units)`.

        Args:
            net: `W l(t) + b`.
            recurrent: `W_rec y(t-1)`.
            y: of the word before.
            c: the cell state, to be changed in place.
        """
        y_next: Vectors = np.tanh(net + recurrent)
        return y_next


class _LSTMCell:
    """One LSTM step; see `PeepholeLSTMCell`, whose blocks are o, f (if learned), i and g."""

    def __init__(self, arrays: Arrays, tower: Mapping[str, Any]) -> None:
        self.kernel = arrays["recurrent_kernel"]
        self._forget_gate = tower["forget_gate"]
        self._peepholes = arrays.get("peephole_kernel", np.zeros((4, 1), np.float32))

    # Of a gate that is shut the exponential may be infinite: 1 / infinity is right.
    @np.errstate(over="ignore")
    def __call__(self, net: Vectors, recurrent: Vectors, y: Vectors, c: Vectors) -> Vectors:
        """The next `y`, see `_TanhCell`."""
        blocks = (net + recurrent).reshape(len(net), -1, len(self.kernel))
        o, g = blocks[:, 0], np.tanh(blocks[:, -1])
        gates = _sigmoid(blocks[:, 1:-1] + self._peepholes[1 : blocks.shape[1] - 1] * c[:, None])
        if self._forget_gate:
            c *= gates[:, 0]
        c += gates[:, -1] * g
        y_next: Vectors = _sigmoid(o + self._peepholes[0] * c) * np.tanh(c)
        return y_next


def _sigmoid(x: Vectors) -> Vectors:
    """`1 / (1 + exp(-x))`."""
    one = np.float32(1)
    found: Vectors = one / (one + np.exp(-x))
    return found


_BOTH_WAYS = {"left_to_right": False, "right_to_left": True}

TOWERS: Mapping[str, Callable[[Arrays, Mapping[str, Any]], Tower]] = {
    "dssm": FeedForward,
    "clsm": Convolution,
    "rnn": partial(Recurrence, cell=_TanhCell),
    "lstm": partial(Recurrence, cell=_LSTMCell),
    "bilstm": partial(Recurrence, cell=_LSTMCell, directions=_BOTH_WAYS),
}
"""What makes a tower of its arrays, without the first matrix, and its configuration."""
