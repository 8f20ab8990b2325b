"""Reading the words of a text one after another, with truncated back propagation through time."""

from __future__ import annotations

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class WordRecurrence(keras.layers.RNN):
    """Runs a cell over the words of each text; what it says at the last word is the output.

    Differs from `keras.layers.RNN` by truncated back propagation through time, counted in words
    of each text: in training, the gradient of the output reaches the last `bptt_steps` words that
    were read, and the state before them is a constant. Padding words, wherever they stand, leave
    the state as it is and do not count. The output itself is never truncated.

    P16 eq. 7 sums the error signals of the steps tau = 0 .. T back from the last word, and
    appendix D lets tau run to the length of the text, where the last term lies before its first
    word and is empty. T steps are therefore T words, and a text of at most T words has its whole
    gradient.

    Args:
        cell: one step.
        bptt_steps: T, "maximum sequence length for truncated BPTT"; None: the whole text.
        kwargs: further arguments of `keras.layers.RNN`.

    Call arguments:
        sequences: `(texts, max_words, units of the cell's input)`.
        mask: bool `(texts, max_words)`, false at padding; None: no padding.

    Returns:
        `(texts, units)`; with `return_sequences` `(texts, max_words, units)`.

    Raises:
        ValueError: no steps, or steps together with `return_sequences`.

    Reference: Palangi et al. 2016, sec. IV, eq. 7 and algorithm 1.
    """

    def __init__(self, cell, bptt_steps=None, **kwargs):
        super().__init__(cell, **kwargs)
        if bptt_steps is not None and bptt_steps < 1:
            raise ValueError(
                f"{type(self).__name__} received bptt_steps={bptt_steps}; expected at least 1 "
                "word, or None for no truncation."
            )
        if bptt_steps is not None and self.return_sequences:
            raise ValueError(
                f"{type(self).__name__} received bptt_steps={bptt_steps} and return_sequences; "
                "truncation counts from the last word, so it needs the last output alone."
            )
        self.bptt_steps = bptt_steps

    def call(self, sequences, initial_state=None, mask=None, training=False):
        """Reads the texts; in two parts where the gradient ends between them."""
        length = sequences.shape[1]
        if (
            not training
            or self.bptt_steps is None
            or (length is not None and length <= self.bptt_steps)
        ):
            return super().call(sequences, initial_state, mask, training)
        if mask is None:
            mask = ops.ones(ops.shape(sequences)[:2], "bool")
        # Words from here to the last one read, this one included.
        count = ops.cast(mask, "int32")
        read = ops.cumsum(count, axis=1)
        if self.go_backwards:
            remaining = read
        else:
            remaining = ops.sum(count, axis=1, keepdims=True) - read + count
        recent = ops.logical_and(mask, remaining <= self.bptt_steps)
        earlier = ops.logical_and(mask, ops.logical_not(recent))
        if initial_state is None:
            initial_state = self.get_initial_state(ops.shape(sequences)[0])
        _, _, states = self.inner_loop(sequences, initial_state, earlier, training)
        states = [ops.stop_gradient(state) for state in states]
        return super().call(sequences, states, recent, training)

    def activations(self, sequences, mask):
        """What the cell computes at each word, by name; to look into a model, not to train it.

        Takes what `call` takes. A cell without `activations` of its own shows its output, `y`.

        Returns:
            `(texts, max_words, units)` each, zero at padding.
        """
        texts, length = sequences.shape[:2]
        states = self.get_initial_state(texts)
        found = {}
        for t in reversed(range(length)) if self.go_backwards else range(length):
            here = mask[:, t : t + 1]
            y, following = self.cell(sequences[:, t], states)
            named = {"y": y}
            if hasattr(self.cell, "activations"):
                named = self.cell.activations(sequences[:, t], states)
            states = [ops.where(here, new, old) for new, old in zip(following, states, strict=True)]
            found[t] = {name: ops.where(here, value, 0.0) for name, value in named.items()}
        return {name: ops.stack([found[t][name] for t in range(length)], 1) for name in found[0]}

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | {"bptt_steps": self.bptt_steps}
