"""What the recurrent towers share: a cell that reads the words of a text one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from dssm_tf.layers.word_recurrence import WordRecurrence
from dssm_tf.towers.tower import Tower


def serialize_initializer(initializer):
    """An initializer as `keras.saving` writes it. A name or a configuration stays as it is.

    Constructing an initializer only to serialize it would draw a number from Keras's global seed.
    """
    if isinstance(initializer, (str, dict)):
        return initializer
    return keras.initializers.serialize(initializer)


class RecurrentTower(Tower):
    """Runs a cell over the words of each text; its output at the last word is the vector.

    A subclass says which cell; the first matrix has hashed each word to what the cell takes.

    Args:
        vocabulary_size: number of trigram ids, padding not counted.
        cell: class of the cell, such as `PeepholeLSTMCell`.
        units: of the cell.
        matrices_per_word: matrices that each word is multiplied by, with `units` columns each.
        cell_options: further arguments of the cell. Its `recurrent_initializer` is that of
            `W_rec`; P16 has small random numbers for all parameters.
        bptt_steps: in training, the gradient ends this many words before the last one read (T of
            P16 algorithm 1); None: at the first word.
        kwargs: `initializer`, `dropout` and `ngram_dropout` of `Tower`; Keras's own.

    Reference: Palangi et al. 2016, sec. III and algorithm 1.
    """

    directions: ClassVar = {"recurrence": False}
    """Name of each recurrence, by which weights are stored: whether it reads right to left."""

    def __init__(
        self,
        vocabulary_size: int,
        cell: type[keras.layers.Layer],
        units: int,
        matrices_per_word: int,
        cell_options: Mapping[str, Any],
        bptt_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        if units < 1:
            raise ValueError(f"{type(self).__name__} received {units} units; expected at least 1.")
        hashed_units = len(self.directions) * matrices_per_word * units
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
    def recurrences(self):
        """One a direction."""
        return [getattr(self, name) for name in self.directions]

    def build(self, *_):
        """Builds the recurrences, each on `(texts, max_words, matrices_per_word * units)`."""
        for recurrence in self.recurrences:
            recurrence.build((None, None, self.hashing.units // len(self.directions)))
        super().build()

    def encode(self, words, present):
        """What each direction says at the last word it reads, side by side."""
        parts = ops.split(words, len(self.directions), axis=-1)
        last = [
            recurrence(part, mask=present)
            for recurrence, part in zip(self.recurrences, parts, strict=True)
        ]
        return ops.concatenate(last, axis=-1)

    def activations(self, texts):
        """What each direction's cell computes at each word of a text batch.

        Returns:
            By name of the direction, then of eq. 2: `(texts, max_words, units)`, zero at padding.
        """
        words = self.hashing(texts["word_ngrams"], texts["tokens"])
        present = ops.not_equal(texts["tokens"], 0)
        parts = ops.split(words, len(self.directions), axis=-1)
        return {
            name: recurrence.activations(part, present)
            for name, recurrence, part in zip(self.directions, self.recurrences, parts, strict=True)
        }

    @property
    def dimension(self):
        """Length of a semantic vector."""
        return len(self.directions) * self.units

    def get_config(self):
        """Constructor arguments, for `keras.saving`."""
        return super().get_config() | self.cell_options | {"bptt_steps": self.bptt_steps}
