"""The convolution of CLSM, on words that are already multiplied by the convolution matrix."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class WordNgramConvolution(keras.layers.Layer):
    """Adds the words of the window around each word: `W_c l_t`, one vector per word.

    The paper multiplies the concatenated trigram counts of a window's words by `W_c`. The columns
    of `W_c` are one block per position of the window, and the product is the sum of each block's
    product with one word. These products do not depend on the word's position in the text, so
    `WordHashing` computes them once per distinct word, `window * units` numbers. The convolution
    then only shifts and adds: `W_c l_t` is the sum of block j of word `t + j` over the positions j
    of the window. `keras.layers.Conv1D` would multiply again, and has no padding word `<s>`.

    The paper puts `<s>` before and after the text "so that a full window for a word at any
    position can be formed", and does not define its vector. A word has the counts of its n-grams,
    and those of `#<s>#` occur in no other word, because punctuation is removed. So the columns of
    `W_c` for `<s>` are free parameters: `padding_word`, one vector per position of the window. The
    middle position never has `<s>`, because windows are formed for words only.

    Args:
        window: words in a window, odd: a word and equally many on either side.
        units: K, rows of `W_c`.

    Call arguments:
        words: `(texts, max_words, window * units)`: the products of each word with the blocks of
            `W_c`, from the leftmost position of the window; zero at padding.
        present: bool `(texts, max_words)`, false at padding, which follows the last word.

    Returns:
        `(texts, max_words, units)`, before tanh; undefined at padding.

    Raises:
        ValueError: the window is not a positive odd number, or there are no units.

    Reference: Shen et al. 2014, sec. 3.2-3.3, eq. 1-2.
    """

    def __init__(self, window: int, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if window < 1 or window % 2 == 0:
            raise ValueError(
                f"WordNgramConvolution received window={window}; expected an odd number of words, "
                "such as 1, 3 or 5: a word and equally many on either side."
            )
        if units < 1:
            raise ValueError(f"WordNgramConvolution received units={units}; expected at least 1.")
        self.window = window
        self.units = units

    def build(self, *_: Any) -> None:
        """Makes the vectors of `<s>`, `(window - 1, units)`, without the middle position."""
        if self.window > 1:
            # Zero at first, so that `<s>` has no effect until one is learned.
            self.padding_word = self.add_weight(
                name="padding_word", shape=(self.window - 1, self.units), initializer="zeros"
            )
        self.built = True

    def call(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """Shifts each position of the window to the word in its middle, and adds."""
        middle = self.window // 2
        blocks = ops.split(words, self.window, axis=-1)
        total = blocks[middle]
        outside_by_shift = []
        for shift in (*range(-middle, 0), *range(1, middle + 1)):
            total = total + _shift(blocks[middle + shift], shift)
            outside_by_shift.append(ops.logical_not(_shift(present, shift)))
        if not outside_by_shift:
            return total
        # Positions outside the text have `<s>`; their blocks are zero.
        is_outside = ops.cast(ops.stack(outside_by_shift, axis=-1), total.dtype)
        return total + ops.matmul(is_outside, self.padding_word)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"window": self.window, "units": self.units}


def _shift(values: keras.KerasTensor, shift: int) -> keras.KerasTensor:
    """`values[:, t + shift]` at index `t` of axis 1; zero or false outside the text."""
    widths = [(0, 0)] * len(values.shape)
    widths[1] = (max(-shift, 0), max(shift, 0))
    padded = ops.pad(values, widths)
    return padded[:, :shift] if shift < 0 else padded[:, shift:]
