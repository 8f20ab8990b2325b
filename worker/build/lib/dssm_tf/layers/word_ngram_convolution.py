"""The convolution of CLSM, on words that are already multiplied by the convolution matrix."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class WordNgramConvolution(keras.layers.Layer):
    """Adds the words of each window: `W_c l_t`, one vector a word.

    The paper multiplies the concatenated trigram counts of a window's words by `W_c`. Its columns
    fall into one block a place of the window, and the product is the sum of the blocks' products
    with one word each. Those products do not depend on where the word stands, so `WordHashing`
    makes them once per distinct word, `window * units` numbers, and what is left of the
    convolution is to shift them and add: `W_c l_t` is the sum over the places j of the window of
    block j of word `t + j`. Differs from `keras.layers.Conv1D` by that, and by the
    padding word `<s>`.

    The paper puts `<s>` before and after the text "so that a full window for a word at any
    position can be formed", and does not say what its vector is. A word has the counts of its
    trigrams, and those of `#<s>#` occur in no other word since punctuation is removed: their
    columns of `W_c` are free parameters, which is what `padding_word` holds, one vector a place
    of the window. The middle place never sees `<s>`: windows are formed for words only.

    Args:
        window: words in a window, odd: the word itself and as many on either side.
        units: K, rows of `W_c`.

    Call arguments:
        words: `(texts, max_words, window * units)`: for each word its products with the blocks
            of `W_c`, leftmost place of the window first; zero at padding.
        present: bool `(texts, max_words)`, false at padding, which follows the last word.

    Returns:
        `(texts, max_words, units)`, before tanh; at padding it means nothing.

    Raises:
        ValueError: the window is not a positive odd number, or there are no units.

    Reference: Shen et al. 2014, sec. 3.2-3.3, eq. 1-2.
    """

    def __init__(self, window, units, **kwargs):
        super().__init__(**kwargs)
        if window < 1 or window % 2 == 0:
            raise ValueError(
                f"WordNgramConvolution received window={window}; expected an odd number of words, "
                "such as 1, 3 or 5: the word in the middle and as many on either side."
            )
        if units < 1:
            raise ValueError(f"WordNgramConvolution received units={units}; expected at least 1.")
        self.window = window
        self.units = units

    def build(self, *_):
        """Makes the vectors of `<s>`, `(window - 1, units)`, the middle place left out."""
        if self.window > 1:
            # Zero at first: `<s>` counts for nothing until the data says what an edge means.
            self.padding_word = self.add_weight(
                name="padding_word", shape=(self.window - 1, self.units), initializer="zeros"
            )
        self.built = True

    def call(self, words, present):
        """Shifts each place of the window to the word in its middle and adds."""
        reach = self.window // 2
        blocks = ops.split(words, self.window, axis=-1)
        total = blocks[reach]
        beyond = []
        for shift in (*range(-reach, 0), *range(1, reach + 1)):
            total = total + _shifted(blocks[reach + shift], shift)
            beyond.append(ops.logical_not(_shifted(present, shift)))
        if not beyond:
            return total
        # Where a window's place lies outside the text, `<s>` stands in it: the block is zero there.
        beyond = ops.cast(ops.stack(beyond, axis=-1), total.dtype)
        return total + ops.matmul(beyond, self.padding_word)

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"window": self.window, "units": self.units}


def _shifted(values, shift):
    """`values[:, t + shift]` at place `t` of axis 1, zero or false where there is none."""
    widths = [(0, 0)] * len(values.shape)
    widths[1] = (max(-shift, 0), max(shift, 0))
    padded = ops.pad(values, widths)
    return padded[:, :shift] if shift < 0 else padded[:, shift:]
