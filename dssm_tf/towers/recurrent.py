"""The base of the recurrent towers, which read the words of a text one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from dssm_tf.layers.word_recurrence import WordRecurrence
from dssm_tf.towers.tower import Tower


def serialize_initializer(initializer: Any) -> Any:
    """Serializes an initializer. A name or a configuration is returned unchanged.

    It is not first converted to an initializer, because that would draw a number from Keras's
    global seed.
    """
    if isinstance(initializer, (str, dict)):
        return initializer
    return keras.initializers.serialize(initializer)


class RecurrentTower(Tower):
    """Runs a cell over the words of each text; its output at the last word is the vector.

    A subclass chooses the cell. The first matrix turns each word into the cell's input.

    Args:
        vocabulary_size: number of n-gram ids, padding not counted.
        cell: class of the cell, such as `PeepholeLSTMCell`.
        units: size of the cell's output.
        input_matrices: number of the cell's matrices that multiply a word, such as `W_1` to `W_4`
            of an LSTM, with `units` columns each.
        cell_options: further arguments of the cell. `recurrent_initializer` initializes `W_rec`;
            P16 initializes all parameters with small random numbers.
        bptt_steps: number of words that the gradient reaches in training, counted from the last
            word read (T of P16 algorithm 1); None for all words.
        kwargs: `initializer`, `dropout` and `ngram_dropout` of `Tower`; Keras's `name`, `dtype`.

    Reference: Palangi et al. 2016, sec. III and algorithm 1.
    """

    directions: ClassVar[Mapping[str, bool]] = {"recurrence": False}
    """For each recurrent layer, by name: whether it reads right to left."""

    def __init__(
        self,
        vocabulary_size: int,
        cell: type[keras.layers.Layer],
        units: int,
        input_matrices: int,
        cell_options: Mapping[str, Any],
        bptt_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        if units < 1:
            raise ValueError(f"{type(self).__name__} received {units} units; expected at least 1.")
        hashed_units = len(self.directions) * input_matrices * units
        super().__init__(vocabulary_size, hashed_units, **kwargs)
        self.units = units
        self.bptt_steps = bptt_steps
        self.cell_options = dict(cell_options)
        for name, backwards in self.directions.items():
            recurrence = WordRecurrence(
                cell(units, dtype=self.dtype_policy, **self.cell_options),
                bptt_steps,
                go_backwards=backwards,
                name=name,
                dtype=self.dtype_policy,
            )
            setattr(self, name, recurrence)

    @property
    def recurrences(self) -> list[WordRecurrence]:
        """The recurrent layers, one per direction."""
        return [getattr(self, name) for name in self.directions]

    def build(self, *_: Any) -> None:
        """Builds the recurrences, each on `(texts, max_words, input_matrices * units)`."""
        for recurrence in self.recurrences:
            recurrence.build((None, None, self.hashing.units // len(self.directions)))
        super().build()

    def encode(self, words: keras.KerasTensor, present: keras.KerasTensor) -> keras.KerasTensor:
        """The output of each direction at the last word it reads, concatenated."""
        inputs = ops.split(words, len(self.directions), axis=-1)
        outputs = [
            recurrence(words_of_direction, mask=present)
            for recurrence, words_of_direction in zip(self.recurrences, inputs, strict=True)
        ]
        return ops.concatenate(outputs, axis=-1)

    def activations(
        self, texts: Mapping[str, keras.KerasTensor]
    ) -> dict[str, dict[str, keras.KerasTensor]]:
        """The values that each direction's cell computes at each word of a text batch.

        Returns:
            By direction, then by the names of eq. 2: each `(texts, max_words, units)`, zero at
            padding.
        """
        words = self.hashing(texts["word_ngrams"], texts["tokens"])
        present = ops.not_equal(texts["tokens"], 0)
        inputs = ops.split(words, len(self.directions), axis=-1)
        by_direction = zip(self.directions, self.recurrences, inputs, strict=True)
        return {
            name: recurrence.activations(words_of_direction, present)
            for name, recurrence, words_of_direction in by_direction
        }

    @property
    def dimension(self) -> int:
        """Length of a semantic vector."""
        return len(self.directions) * self.units

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments, for `keras.saving`."""
        config: dict[str, Any] = super().get_config()
        return config | self.cell_options | {"bptt_steps": self.bptt_steps}
