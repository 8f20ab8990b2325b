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

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError

Vectors = NDArray[np.float32]
Places = NDArray[np.intp]
Arrays = Mapping[str, Vectors]

# Directions of a recurrence: whether they read right to left.
_ONE_WAY = {"recurrence": False}
_BOTH_WAYS = {"left_to_right": False, "right_to_left": True}


class TowerArrays(Protocol):
    """What turns hashed words into semantic vectors."""

    constant: Vectors
    """What the table adds to every word, `(units,)` or one number."""

    def __call__(self, words: Vectors, starts: Places, lengths: Places) -> Vectors:
        """Vectors `(texts, dimension)`; see the head of this file."""
        ...


def places_of_words(
    starts: Places, lengths: Places, backwards: bool = False
) -> Iterator[tuple[int, Places]]:
    """Walks over texts word by word.

    Args:
        starts: where the words of each text begin, the longest text first.
        lengths: how many there are.
        backwards: whether the last word comes first.

    Yields:
        How many texts have a first, a second, ... word, and where those stand.
    """
    firsts = starts + lengths - 1 if backwards else starts
    step = -1 if backwards else 1
    # How many texts have more than 0, 1, ... words; lengths fall.
    counts = len(lengths) - lengths[::-1].searchsorted(np.arange(lengths[0]), side="right")
    for t, count in enumerate(counts.tolist()):
        yield count, firsts[:count] + step * t


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
        if len(starts) == 1:  # all words are of this text
            sums = words.sum(axis=0, keepdims=True)
        else:
            sums = np.zeros((len(starts), words.shape[1]), np.float32)
            for count, places in places_of_words(starts, lengths):
                sums[:count] += words.take(places, axis=0)
        vectors: Vectors = np.tanh(sums + self._bias)
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
        strongest = np.full((len(starts), self._features), -np.inf, np.float32)
        windows = self._windows(words, starts, lengths)
        for count, places in places_of_words(starts, lengths):
            np.maximum(strongest[:count], windows.take(places, axis=0), out=strongest[:count])
        vectors: Vectors = np.tanh(strongest)
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
        # For each word, its text's first word and the one after the text's last.
        first, end = np.empty(len(words), np.intp), np.empty(len(words), np.intp)
        for count, places in places_of_words(starts, lengths):
            first[places] = starts[:count]
            end[places] = (starts + lengths)[:count]
        place = np.arange(len(words))
        shifts = (*range(-reach, 0), *range(1, reach + 1))
        for shift, padding in zip(shifts, self._padding_word, strict=True):
            inside = (place + shift >= first) & (place + shift < end)
            total[inside] += blocks[place[inside] + shift, reach + shift]
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
        self, arrays: Arrays, tower: Mapping[str, Any], cell: Any, directions: Mapping[str, bool]
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
        units = words.shape[1] // len(self._cells)
        parts = [words[:, i * units : (i + 1) * units] for i in range(len(self._cells))]
        last = [
            cell(part, places_of_words(starts, lengths, backwards), len(starts))
            for cell, part, backwards in zip(self._cells, parts, self._backwards, strict=True)
        ]
        return last[0] if len(last) == 1 else np.concatenate(last, axis=1)


class _TanhCell:
    """`y(t) = tanh(W l(t) + W_rec y(t-1) + b)`."""

    def __init__(self, arrays: Arrays, tower: Mapping[str, Any]) -> None:
        self._kernel = arrays["recurrent_kernel"]

    def __call__(self, inputs: Vectors, steps: Any, texts: int) -> Vectors:
        """`y` at each text's last word, `(texts, units)`."""
        y = np.zeros((texts, len(self._kernel)), np.float32)
        for t, (count, places) in enumerate(steps):
            net = inputs.take(places, axis=0)
            if t:  # before the first word y is zero
                net += y[:count] @ self._kernel
            y[:count] = np.tanh(net)
        return y


class _LSTMCell:
    """One LSTM step; see `PeepholeLSTMCell`, whose blocks are o, f (if learned), i and g."""

    def __init__(self, arrays: Arrays, tower: Mapping[str, Any]) -> None:
        self._kernel = arrays["recurrent_kernel"]
        self._forget_gate = tower["forget_gate"]
        self._peepholes = arrays.get("peephole_kernel")

    # Of a gate that is shut the exponential may be infinite: 1 / infinity is right.
    @np.errstate(over="ignore")
    def __call__(self, inputs: Vectors, steps: Any, texts: int) -> Vectors:
        """`y` at each text's last word, `(texts, units)`."""
        units = len(self._kernel)
        y, c = (np.zeros((texts, units), np.float32) for _ in range(2))
        for t, (count, places) in enumerate(steps):
            net = inputs.take(places, axis=0)
            if t:  # before the first word y and c are zero
                net += y[:count] @ self._kernel
            net = net.reshape(count, -1, units)
            if t and self._peepholes is not None:
                net[:, 1:-1] += self._peepholes[1:] * c[:count, None]
            gates = _sigmoid(net[:, 1:-1])
            if self._forget_gate:
                c[:count] *= gates[:, 0]
            c[:count] += gates[:, -1] * np.tanh(net[:, -1])
            o = net[:, 0]
            if self._peepholes is not None:
                o = o + self._peepholes[0] * c[:count]
            y[:count] = _sigmoid(o) * np.tanh(c[:count])
        return y


def _sigmoid(x: Vectors) -> Vectors:
    """`1 / (1 + exp(-x))`."""
    one = np.float32(1)
    found: Vectors = one / (one + np.exp(-x))
    return found


def make_tower(tower: Mapping[str, Any], arrays: Arrays) -> TowerArrays:
    """The tower of a name.

    Args:
        tower: its configuration: `name`, and what its arrays do not tell.
        arrays: by their Keras names, without the first matrix.

    Raises:
        UserError: there is no such tower here.
    """
    name = tower["name"]
    if name == "dssm":
        return FeedForward(arrays, tower)
    if name == "clsm":
        return Convolution(arrays, tower)
    if name == "rnn":
        return Recurrence(arrays, tower, _TanhCell, _ONE_WAY)
    if name == "lstm":
        return Recurrence(arrays, tower, _LSTMCell, _ONE_WAY)
    if name == "bilstm":
        return Recurrence(arrays, tower, _LSTMCell, _BOTH_WAYS)
    raise UserError(
        f"the tower {name!r:.40} has no form in NumPy; export it for TensorFlow Serving, or write "
        "it in dssm_tf/runtime/towers.py."
    )
