"""Sample texts, and towers with the parameters of the papers' equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from dssm_tf.towers.bilstm import BidirectionalLSTMRNN
from dssm_tf.towers.lstm import LSTMRNN
from dssm_tf.towers.rnn import RNN
from dssm_tf.towers.tower import Tower
from tests.layers.cells import assign_parameters
from tests.reference.letter_trigrams import count_matrix, text_batch, trigrams
from tests.reference.peephole_lstm import LSTMParameters
from tests.reference.tanh_rnn import RNNParameters

SENTENCES = [
    ["cat", "dog", "cat"],
    [],
    ["dog"],
    ["cats", "unseen", "dog", "cat", "aaaa", "dog", "cat"],
    ["unseen", "cat"],
]
KNOWN = list(dict.fromkeys(t for word in ("cat", "dog", "aaaa") for t in trigrams(word)))
BATCH = text_batch(SENTENCES, KNOWN)
COUNTS = [count_matrix(words, KNOWN) for words in SENTENCES]


def build(tower: Tower, first_matrix: np.ndarray) -> None:
    """Builds a tower with `first_matrix` `(trigrams, units)`; the row of padding is arbitrary."""
    tower.build()
    tower.hashing.kernel.assign(
        np.concatenate([np.full((1, first_matrix.shape[1]), 9.0), first_matrix])
    )


def lstm(*sides: LSTMParameters, **variant: bool) -> LSTMRNN:
    """An LSTM, or with the parameters of two directions a bidirectional one."""
    kind = LSTMRNN if len(sides) == 1 else BidirectionalLSTMRNN
    first = [p.concatenated("w", variant.get("forget_gate", True)) for p in sides]
    tower = kind(len(first[0]), len(sides[0].b1), dtype="float64", **variant)
    build(tower, np.concatenate(first, axis=1))
    for recurrence, p in zip(tower.recurrences, sides, strict=True):
        assign_parameters(recurrence.cell, p)
    return tower


def rnn(p: RNNParameters, **options: Any) -> RNN:
    """An RNN."""
    tower = RNN(*reversed(p.w.shape), dtype="float64", **options)
    build(tower, p.w.T)
    tower.recurrence.cell.recurrent_kernel.assign(p.rec.T)
    tower.recurrence.cell.bias.assign(p.b)
    return tower


def vectors_and_gradients(
    tower: Tower, output_gradients: np.ndarray, batch: Any = BATCH, **options: bool
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The vectors, and for every weight the gradient of `sum(vectors * output_gradients)`."""
    with tf.GradientTape() as tape:
        vectors = tower(batch, **options)
        total = tf.reduce_sum(vectors * output_gradients)
    gradients = tape.gradient(total, tower.trainable_variables)
    return np.array(vectors), [*map(np.array, gradients)]
