"""A recurrent layer over the words of a text, with truncated backpropagation through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dssm_tf")
class WordRecurrence(keras.layers.RNN):
    """Runs a cell over the words of each text. The cell's output at the last word is the result.

    Differs from `keras.layers.RNN` by truncated backpropagation through time, counted in words of
    each text: in training, the gradient of the output reaches the last `bptt_steps` words that were
    read, and the state before them is a constant. Padding words at any position leave the state
    unchanged and are not counted. The output itself does not depend on the truncation.

    Equation 7 of the paper sums the error signals of the steps tau = 0 .. T back from the last
    word. In appendix D, tau runs to the length of the text; the last term is then before the first
    word, and empty. T steps are therefore T words, and a text of at most T words has its full
    gradient.

    Args:
        cell: the layer that computes one step.
        bptt_steps: T, "maximum sequence length for truncated BPTT"; None does not truncate.
        kwargs: further arguments of `keras.layers.RNN`.

    Call arguments:
        sequences: `(texts, max_words, width of the cell's input)`.
        mask: bool `(texts, max_words)`, false at padding; None if there is no padding.

    Returns:
        `(texts, units)`; with `return_sequences` `(texts, max_words, units)`.

    Raises:
        ValueError: `bptt_steps` is below 1, or is combined with `return_sequences`.

    Reference: Palangi et al. 2016, sec. IV, eq. 7 and algorithm 1.
    """

    def __init__(
        self, cell: keras.layers.Layer, bptt_steps: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(cell, **kwargs)
        if bptt_steps is not None and bptt_steps < 1:
            raise ValueError(
                f"{type(self).__name__} received bptt_steps={bptt_steps}; expected at least 1 "
                "word, or None for no truncation."
            )
        if bptt_steps is not None and self.return_sequences:
            raise ValueError(
                f"{type(self).__name__} received bptt_steps={bptt_steps} and return_sequences; "
                "truncation counts from the last word, so only the last output may be returned."
            )
        self.bptt_steps = bptt_steps

    def call(
        self,
        sequences: keras.KerasTensor,
        initial_state: Sequence[keras.KerasTensor] | None = None,
        mask: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Runs the cell; if truncated, first over the earlier words, without their gradient."""
        length = sequences.shape[1]
        if (
            not training
            or self.bptt_steps is None
            or (length is not None and length <= self.bptt_steps)
        ):
            return super().call(sequences, initial_state, mask, training)
        if mask is None:
            mask = ops.ones(ops.shape(sequences)[:2], "bool")
        # `remaining`: the number of words from each word to the last one read, both included.
        is_word = ops.cast(mask, "int32")
        words_so_far = ops.cumsum(is_word, axis=1)
        if self.go_backwards:
            remaining = words_so_far
        else:
            remaining = ops.sum(is_word, axis=1, keepdims=True) - words_so_far + is_word
        recent = ops.logical_and(mask, remaining <= self.bptt_steps)
        earlier = ops.logical_and(mask, ops.logical_not(recent))
        if initial_state is None:
            initial_state = self.get_initial_state(ops.shape(sequences)[0])
        _, _, states = self.inner_loop(sequences, initial_state, earlier, training)
        states = [ops.stop_gradient(state) for state in states]
        return super().call(sequences, states, recent, training)

    def activations(
        self, sequences: keras.KerasTensor, mask: keras.KerasTensor
    ) -> dict[str, keras.KerasTensor]:
        """The values that the cell computes at each word, for the analysis of a trained model.

        Takes the arguments of `call`. For a cell without the method `activations`, the result has
        only the output, `y`.

        Returns:
            By name, each `(texts, max_words, units)`, zero at padding.
        """
        texts, length = sequences.shape[:2]
        states = self.get_initial_state(texts)
        by_word = {}
        for t in reversed(range(length)) if self.go_backwards else range(length):
            present = mask[:, t : t + 1]
            y, next_states = self.cell(sequences[:, t], states)
            values = {"y": y}
            if hasattr(self.cell, "activations"):
                values = self.cell.activations(sequences[:, t], states)
            states = [
                ops.where(present, new, old) for new, old in zip(next_states, states, strict=True)
            ]
            by_word[t] = {name: ops.where(present, value, 0.0) for name, value in values.items()}
        return {
            name: ops.stack([by_word[t][name] for t in range(length)], 1) for name in by_word[0]
        }

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | {"bptt_steps": self.bptt_steps}
