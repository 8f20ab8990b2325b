"""All layers: their configuration makes an equal layer, and impossible sizes are refused."""

from __future__ import annotations

import keras
import pytest

from dssm_tf.layers import PeepholeLSTMCell, TanhCell, WordHashing, WordNgramConvolution
from dssm_tf.layers.word_recurrence import WordRecurrence

LAYERS = [
    WordHashing(1, 1),
    WordHashing(7, 3, initializer="he_normal", dropout=0.25, dtype="mixed_bfloat16", name="h"),
    WordNgramConvolution(5, 4, dtype="mixed_bfloat16", name="convolution"),
    TanhCell(4, recurrent_initializer="glorot_normal", bias_initializer="random_normal"),
    PeepholeLSTMCell(4, False, True, 0.25, "glorot_normal", "random_normal", "random_uniform"),
    WordRecurrence(TanhCell(4), 3, go_backwards=True, dtype="mixed_bfloat16", name="reader"),
    WordRecurrence(PeepholeLSTMCell(4, forget_gate=False)),
    WordRecurrence(TanhCell(1), 1, name="smallest"),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_the_configuration_of_a_layer_makes_an_equal_layer(layer):
    config = layer.get_config()
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert copy.get_config() == config
    for name, value in vars(layer).items():
        if isinstance(value, keras.initializers.Initializer):
            assert type(getattr(copy, name)) is type(value)


@pytest.mark.parametrize(
    ("build_layer", "message"),
    [
        (lambda: WordHashing(0, 4), "vocabulary_size=0, units=4"),
        (lambda: WordHashing(4, 0), "vocabulary_size=4, units=0"),
        (lambda: WordNgramConvolution(0, 3), "window=0; expected an odd number of words"),
        (lambda: WordNgramConvolution(-1, 3), "window=-1; expected an odd number of words"),
        (lambda: WordNgramConvolution(4, 3), "window=4; expected an odd number of words"),
        (lambda: WordNgramConvolution(3, 0), "units=0; expected at least 1"),
        (lambda: TanhCell(0), "units=0; expected at least 1"),
        (lambda: PeepholeLSTMCell(0), "units=0; expected at least 1"),
        (lambda: WordRecurrence(TanhCell(3), 0), "bptt_steps=0; expected at least 1 word"),
        (
            lambda: WordRecurrence(TanhCell(3), 2, return_sequences=True),
            "bptt_steps=2 and return_sequences",
        ),
    ],
)
def test_impossible_sizes_are_refused(build_layer, message):
    with pytest.raises(ValueError, match=message):
        build_layer()
