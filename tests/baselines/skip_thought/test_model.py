"""The skip-thought model against the equations."""

import keras
import numpy as np
import pytest
from pytest import approx

from dssm_tf.baselines.skip_thought.model import GRU, GRUCell, SkipThought, ThoughtEncoder
from tests.reference import gru as oracle

DIM, UNITS = 3, 4


def set_direction(layer, parameters, prefix="encoder"):
    part = {key: parameters[f"{prefix}_{key}"] for key in ("W", "b", "U", "Wx", "bx", "Ux")}
    layer.input_projection.set_weights(
        [np.hstack([part["W"], part["Wx"]]), np.hstack([part["b"], part["bx"]])]
    )
    layer.recurrence.set_weights([part["U"], part["Ux"]])


def encoder(parameters, reset):
    layer = ThoughtEncoder(DIM, UNITS, "encoder_r_W" in parameters, reset, seed=0, dtype="float64")
    for direction, prefix in zip(layer.directions(), ("encoder", "encoder_r"), strict=False):
        set_direction(direction, parameters, prefix)
    return layer


def texts(seed=0):
    """Word vectors of four texts of 1 to 5 words, padded with noise; which are words."""
    words = np.random.default_rng(seed).normal(size=(4, 5, DIM))
    lengths = np.array([5, 1, 3, 2])
    return words, np.arange(5) < lengths[:, None], lengths


def test_one_step_by_hand():
    # units 1, all matrices 1, biases 0, x = 1 -> gates see 1 + h, h(0) = 0:
    # r = u = sigmoid(1); g = tanh(1 + r * 0) = tanh(1); h = (1 - u) tanh(1)
    cell = GRUCell(1)
    cell.build()
    cell.set_weights([np.ones((1, 2)), np.ones((1, 1))])
    h, _ = cell(np.ones((1, 3), "float32"), [np.zeros((1, 1), "float32")])
    update = 1 / (1 + np.exp(-1))
    assert float(h[0, 0]) == approx((1 - update) * np.tanh(1))


@pytest.mark.parametrize("reset", ["before", "after"])
@pytest.mark.parametrize("directions", [1, 2])
def test_thought_vectors_equal_the_oracles(reset, directions):
    parameters = oracle.random_encoder(DIM, UNITS, 1)
    if directions == 2:
        parameters |= oracle.random_encoder(DIM, UNITS, 2, "encoder_r")
    words, present, lengths = texts()
    found = np.asarray(encoder(parameters, reset)(words, present=present))
    for row, length in enumerate(lengths):
        expected = oracle.thought(list(words[row, :length]), parameters, reset)
        assert found[row] == approx(expected, rel=1e-9, abs=1e-12)


def test_the_two_places_of_the_reset_gate_differ_and_are_not_confused():
    parameters = oracle.random_encoder(DIM, UNITS, 1)
    words, present, _ = texts()
    before, after = (np.asarray(encoder(parameters, each)(words, present=present))
                     for each in ("before", "after"))  # fmt: skip
    # One word: h(0) = 0, so the reset gate has nothing to act on.
    assert before[1] == approx(after[1])
    assert np.abs(before[0] - after[0]).max() > 1e-3


def test_the_likelihood_of_the_neighbours_equals_the_oracles():
    model = SkipThought(6, UNITS, DIM, bidirectional=True, seed=3, dtype="float64")
    current = np.array([[3, 4, 0], [5, 0, 0]], "int32")
    before = np.array([[4, 1, 0], [0, 0, 0]], "int32")  # the second has none
    after = np.array([[6, 5, 1], [3, 1, 0]], "int32")
    random = np.random.default_rng(4)
    for variable in model.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    found = np.asarray(model((current, before, after)))

    table = np.asarray(model.table)
    matrix, bias = model.output_words.get_weights()
    for row, sentence in enumerate(current):
        thought = np.concatenate(
            [
                oracle.states(vectors, layer_parameters(gru), "encoder", "before")[-1]
                for gru, vectors in zip(
                    model.encoder.directions(),
                    (table[sentence[sentence > 0]], table[sentence[sentence > 0]][::-1]),
                    strict=True,
                )
            ]
        )
        expected = 0.0
        for decoder, neighbours in zip(model.decoders, (before, after), strict=True):
            words = neighbours[row][neighbours[row] > 0]
            if len(words):
                (c,) = decoder.condition_projection.get_weights()
                condition = thought @ c
                units = len(condition) // 3
                # The first word follows nothing, each other one the word before it.
                seen = [np.zeros(DIM), *table[words[:-1]]]
                decoder_states = oracle.states(
                    seen,
                    layer_parameters(decoder),
                    "encoder",
                    "before",
                    (condition[: 2 * units], condition[2 * units :]),
                )
                expected += oracle.negative_log_likelihood(decoder_states, words, matrix, bias)
        assert found[row] == approx(expected, rel=1e-9)


def test_words_above_the_predicted_ones_count_as_the_unknown_word():
    model = SkipThought(6, UNITS, DIM, seed=3, predicted_words=4)
    assert model.output_words.kernel.shape == (UNITS, 5)
    current, none = np.array([[3, 6]], "int32"), np.array([[0, 0]], "int32")
    rare, unknown = (np.array([[4, one, 1]], "int32") for one in (5, 2))
    table = np.asarray(model.table).copy()
    table[5] = table[2]  # to the decoder's input, too
    model.table.assign(table)
    losses = [np.asarray(model((current, after, none)))[0] for after in (rare, unknown)]
    assert losses[0] == approx(losses[1], abs=1e-6)


def layer_parameters(layer):
    """A layer's weights under the names of the release."""
    kernel, bias = layer.input_projection.get_weights()
    gates, state = layer.recurrence.get_weights()
    units = len(state)
    return {
        "encoder_W": kernel[:, : 2 * units],
        "encoder_Wx": kernel[:, 2 * units :],
        "encoder_b": bias[: 2 * units],
        "encoder_bx": bias[2 * units :],
        "encoder_U": gates,
        "encoder_Ux": state,
    }


def test_gates_and_states_start_orthogonal_and_different():
    layer = GRU(DIM, UNITS, seed=7)
    gates, state = layer.recurrence.get_weights()
    squares = [gates[:, :UNITS], gates[:, UNITS:], state]
    for square in squares:
        assert square @ square.T == approx(np.eye(UNITS), abs=1e-5)
    assert np.abs(squares[0] - squares[1]).max() > 0.1
    assert np.abs(squares[1] - squares[2]).max() > 0.1


def test_equal_seeds_start_equal_and_others_do_not():
    batch = tuple(np.ones((1, 2), "int32") for _ in range(3))
    losses = []
    for seed in (1, 1, 2):
        model = SkipThought(9, UNITS, DIM, seed=seed)
        losses.append(float(model(batch)[0]))
    assert losses[0] == losses[1] != losses[2]


def test_layers_are_rebuilt_from_their_configuration():
    cell = GRUCell(5, "after", seed=3)
    again = GRUCell.from_config(cell.get_config())
    assert (again.units, again.reset, again.seed) == (5, "after", 3)
    assert keras.saving.get_registered_object("dssm_tf.baselines.skip_thought>GRUCell") is GRUCell


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GRUCell(0), "units=0; expected at least 1"),
        (lambda: GRUCell(2, "between"), r"reset='between'; expected one of \('before', 'after'\)"),
        (lambda: SkipThought(0, 2, 2), "vocabulary_size=0"),
        (lambda: SkipThought(5, 2, 2, predicted_words=1), "predicted_words=1; expected at least 2"),
    ],
)
def test_impossible_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
