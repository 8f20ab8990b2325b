"""Nesterov's method as in the paper: updates, momentum schedule, clipping, saving."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.config import parse_config
from dssm_tf.model.siamese import Siamese
from dssm_tf.optimizers.nesterov import ScheduledNesterov, clip_by_group
from dssm_tf.towers.dssm import DSSM
from dssm_tf.training.model_state import ranking_weights
from tests.reference import nesterov as reference

pytestmark = pytest.mark.keras

CURVATURE = np.array([[2.0, 0.3], [0.3, 0.7]])
STARTS = {"query_tower": np.array([1.0, -2.0]), "title_tower": np.array([-0.5, 0.25])}


def gradient(point: np.ndarray) -> np.ndarray:
    """Gradient of the quadratic x' A x / 2."""
    return CURVATURE @ point


def run(optimizer: ScheduledNesterov, updates: int) -> np.ndarray:
    """`L_0, L_1, ...` of each tower, which descends a quadratic: `(1 + updates, towers, 2)`.

    The gradient is taken at the values of the variables.
    """
    variables = [keras.Variable(start, dtype="float64") for start in STARTS.values()]
    optimizer.build(variables)
    optimizer.clip_separately([[variable] for variable in variables])
    points = [[*STARTS.values()]]
    for k in range(1, updates + 1):
        optimizer.apply(
            [tf.constant(gradient(variable.numpy())) for variable in variables], variables
        )
        # The variable is the look-ahead point L_k + mu_k D_k; D_k is the optimizer's variable.
        mu = reference.momentum(k, optimizer.total_steps)
        steps = zip(variables, optimizer._steps, strict=True)
        points.append([variable.numpy() - mu * step.numpy() for variable, step in steps])
    for _ in range(2):  # the second call changes nothing
        optimizer.finalize_variable_values(variables)
        values = [variable.numpy() for variable in variables]
        np.testing.assert_allclose(values, points[-1], atol=1e-6)
    return np.array(points)


@pytest.mark.numeric
@pytest.mark.parametrize(("total", "threshold"), [(50, None), (150, None), (100, 0.5)])
def test_every_update_is_the_paper_s_across_both_momentum_changes(total, threshold):
    points = run(ScheduledNesterov(0.05, total, clip_norm=threshold), total)
    expected = [
        reference.descend(start, gradient, 0.05, total, total, threshold)
        for start in STARTS.values()
    ]
    np.testing.assert_allclose(points, np.stack(expected, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.numeric
def test_the_first_two_updates_by_hand():
    # D_1 = -.1 g(L_0); L_1 = L_0 + D_1. With 1000 updates mu is .9 at the start:
    # D_2 = .9 D_1 - .1 g(L_1 + .9 D_1).
    l0 = STARTS["query_tower"]
    d1 = -0.1 * gradient(l0)
    d2 = 0.9 * d1 - 0.1 * gradient(l0 + d1 + 0.9 * d1)
    points = run(ScheduledNesterov(0.1, 1000), 2)[:, 0]
    np.testing.assert_allclose(points, [l0, l0 + d1, l0 + d1 + d2], atol=1e-6)


def test_each_group_is_clipped_by_its_joint_norm():
    gradients = [tf.constant([3.0]), tf.constant([[0.0, 4.0]]), tf.constant([0.6, 0.8])]
    clipped = clip_by_group(gradients, ["query", "query", "title"], threshold=1.0)
    # The first group's norm is sqrt(9 + 16) = 5, rescaled to 1; the second's is 1 already.
    assert np.array(clipped[0]) == pytest.approx(np.array([0.6]))
    assert np.array(clipped[1]) == pytest.approx(np.array([[0.0, 0.8]]))
    assert np.array(clipped[2]) == pytest.approx(np.array([0.6, 0.8]))


@pytest.mark.parametrize("names", [("query_tower", "title_tower"), ("a", "b")])
def test_a_compiled_model_clips_each_tower_with_any_names(names):
    model = Siamese(*(DSSM(3, widths=(2,), name=name) for name in names))
    optimizer = ScheduledNesterov(1.0, 100, momentum=0.0, edge_momentum=0.0, clip_norm=1.0)
    model.compile(optimizer, "click_softmax")
    variables = model.trainable_variables
    optimizer.build(variables)
    before = [variable.numpy() for variable in variables]
    # A tower has n numbers: norms 3 sqrt(n) and .01 sqrt(n), so only the first is rescaled.
    sizes = [3.0] * (len(variables) // 2) + [0.01] * (len(variables) // 2)
    gradients = [
        tf.fill(variable.shape, size) for variable, size in zip(variables, sizes, strict=True)
    ]
    optimizer.apply(gradients, variables)
    steps = [old - variable.numpy() for old, variable in zip(before, variables, strict=True)]
    query, title = steps[: len(steps) // 2], steps[len(steps) // 2 :]
    assert np.sqrt(sum((step**2).sum() for step in query)) == pytest.approx(1.0, rel=1e-5)
    for step in title:
        np.testing.assert_allclose(step, 0.01, rtol=1e-4)


def tiny_model(optimizer: ScheduledNesterov) -> tuple[keras.Model, tuple[np.ndarray, np.ndarray]]:
    """A compiled model and a batch."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3)])
    model.compile(optimizer, "mse")
    return model, (np.arange(8.0).reshape(4, 2) / 8, np.ones((4, 3)))


@pytest.mark.numeric
def test_ranking_weights_and_final_weights_are_the_paper_s_parameters_not_the_look_ahead():
    updates, weights_by_epoch = 60, []
    optimizer = ScheduledNesterov(0.03, updates, clip_norm=0.05)
    model, batch = tiny_model(optimizer)

    def record(epoch, _):
        weights_by_epoch.append(ranking_weights(model))
        mu = reference.momentum(epoch + 1, updates)
        steps = [mu * step.numpy() for step in optimizer._steps]
        for value, ahead, step in zip(
            weights_by_epoch[-1], model.get_weights(), steps, strict=True
        ):
            np.testing.assert_allclose(value, ahead - step, atol=1e-6)
        assert any(np.abs(step).max() > 1e-4 for step in steps)

    callback = keras.callbacks.LambdaCallback(on_epoch_end=record)
    data = tf.data.Dataset.from_tensors(batch).with_options(WITHOUT_AUTOTUNING)
    model.fit(data, epochs=updates, shuffle=False, verbose=0, callbacks=[callback])
    for weight, expected in zip(model.get_weights(), weights_by_epoch[-1], strict=True):
        np.testing.assert_allclose(weight, expected, atol=1e-6)


def test_with_averaging_the_final_weights_are_the_averages():
    variable = keras.Variable(np.float32([1.0, -2.0]))
    optimizer = ScheduledNesterov(0.1, 100, use_ema=True, ema_momentum=0.5)
    optimizer.build([variable])
    for _ in range(5):
        optimizer.apply([tf.constant(gradient(variable.numpy()), tf.float32)], [variable])
    average = optimizer._model_variables_moving_average[0].numpy()
    optimizer.finalize_variable_values([variable])
    np.testing.assert_allclose(variable.numpy(), average, atol=1e-6)


def test_a_saved_model_continues_as_if_it_had_never_been_saved(tmp_path):
    options = {"total_steps": 40, "momentum": 0.99, "edge_momentum": 0.8, "edge": 0.1,
               "clip_norm": 3.0}  # fmt: skip
    model, batch = tiny_model(ScheduledNesterov(0.05, **options))
    for _ in range(2):
        model.train_on_batch(*batch)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert {name: getattr(loaded.optimizer, name) for name in options} == options
    for trained in (model, loaded):
        trained.train_on_batch(*batch)
    for weight, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)


def optimizer_config(**options):
    return parse_config({"tower": {"name": "dssm"}, "optimizer": options}).optimizer


def test_optimizers_are_built_from_their_sections():
    nesterov = optimizer_config(name="nesterov", learning_rate=0.1, clip_norm=2.0, momentum=0.9)
    paper = nesterov.build(total_steps=50, averaging=0.5)
    assert isinstance(paper, ScheduledNesterov)
    assert (paper.total_steps, paper.clip_norm, paper.momentum) == (50, 2.0, 0.9)
    assert (paper.use_ema, paper.ema_momentum) == (True, 0.5)
    options = {"beta_1": 0.8}
    section = optimizer_config(name="adam", learning_rate=0.1, clip_norm=2.0, options=options)
    adam = section.build(averaging=0.5)
    assert isinstance(adam, keras.optimizers.Adam)
    assert (adam.global_clipnorm, adam.beta_1, adam.use_ema) == (2.0, 0.8, True)
    assert float(adam.learning_rate) == pytest.approx(0.1)
    assert optimizer_config(name="sgd").build().global_clipnorm is None


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ({"learning_rate": 0.5}, "optimizer.learning_rate"),
        ({"global_clipnorm": 1.0}, "optimizer.clip_norm"),
        ({"use_ema": True}, "training.averaging"),
    ],
)
def test_an_option_that_is_a_key_of_the_configuration_is_refused(option, key):
    with pytest.raises(UserError, match=rf"is not an option; set {key}"):
        optimizer_config(name="adam", options=option)


@pytest.mark.parametrize("options", [{"beta": 1}, {"beta_1": "x"}])
def test_a_wrong_option_is_refused_before_anything_is_trained(options):
    with pytest.raises(UserError, match=r"^optimizer: adam does not accept .* \(.+\);[^\n]+$"):
        optimizer_config(name="adam", options=options).check()


@pytest.mark.parametrize("name", ["adam", "adamw", "adamax", "adafactor", "adagrad", "adadelta",
                                  "ftrl", "lion", "nadam", "rmsprop", "sgd"])  # fmt: skip
def test_every_optimizer_that_may_be_named_exists(name):
    optimizer_config(name=name).check()


@pytest.mark.parametrize(
    "arguments",
    [
        {"momentum": 1.0},
        {"edge_momentum": -0.1},
        {"edge": 1.5},
        {"clip_norm": 0},
        {"total_steps": 0},
    ],
)
def test_a_number_outside_of_its_range_is_refused(arguments):
    (name,) = arguments
    with pytest.raises(ValueError, match=f"received {name}="):
        ScheduledNesterov(**{"learning_rate": 0.1, "total_steps": 10} | arguments)
