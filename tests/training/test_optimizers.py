"""Nesterov as the paper writes it, its schedule, its clipping; other optimisers by name."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.common.errors import UserError
from dssm_tf.config import OptimizerConfig
from dssm_tf.data.preprocessed import UNTUNED
from dssm_tf.training.keeper import Keeper
from dssm_tf.training.optimizers import (
    ScheduledNesterov,
    check_optimizer,
    clip_by_tower,
    make_optimizer,
)
from tests.reference import nesterov as reference

pytestmark = pytest.mark.keras

CURVATURE = np.array([[2.0, 0.3], [0.3, 0.7]])
STARTS = {"query_tower": np.array([1.0, -2.0]), "title_tower": np.array([-0.5, 0.25])}


def slope(point: np.ndarray) -> np.ndarray:
    """Gradient of the quadratic x' A x / 2."""
    return CURVATURE @ point


def run(optimizer: ScheduledNesterov, updates: int) -> np.ndarray:
    """`L_0, L_1, ...` of each tower on a quadratic of its own: `(1 + updates, towers, 2)`.

    The gradient is taken where the variables stand.
    """
    variables = []
    for tower, start in STARTS.items():
        with keras.name_scope(tower):
            variables.append(keras.Variable(start, dtype="float64", name="x"))
    optimizer.build(variables)
    points = [[*STARTS.values()]]
    for k in range(1, updates + 1):
        optimizer.apply([tf.constant(slope(one.numpy())) for one in variables], variables)
        # The variable is the look-ahead point L_k + mu_k D_k; D_k is the optimiser's own.
        mu = reference.momentum(k, optimizer.total_updates)
        steps = zip(variables, optimizer._steps, strict=True)
        points.append([one.numpy() - mu * step.numpy() for one, step in steps])
    for _ in range(2):  # the second time nothing of the look-ahead is left
        optimizer.finalize_variable_values(variables)
        found = [one.numpy() for one in variables]
        np.testing.assert_allclose(found, points[-1], atol=1e-6)
    return np.array(points)


@pytest.mark.numeric
@pytest.mark.parametrize(("total", "threshold"), [(50, None), (150, None), (100, 0.5)])
def test_every_update_is_the_paper_s_through_both_momentum_changes(total, threshold):
    found = run(ScheduledNesterov(0.05, total, clip_norm=threshold), total)
    expected = [
        reference.descend(start, slope, 0.05, total, total, threshold) for start in STARTS.values()
    ]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.numeric
def test_the_first_two_updates_by_hand():
    # D_1 = -.1 g(L_0); L_1 = L_0 + D_1. With 1000 updates mu is .9 at the start:
    # D_2 = .9 D_1 - .1 g(L_1 + .9 D_1).
    l0 = STARTS["query_tower"]
    d1 = -0.1 * slope(l0)
    d2 = 0.9 * d1 - 0.1 * slope(l0 + d1 + 0.9 * d1)
    found = run(ScheduledNesterov(0.1, 1000), 2)[:, 0]
    np.testing.assert_allclose(found, [l0, l0 + d1, l0 + d1 + d2], atol=1e-6)


def test_each_tower_is_clipped_by_its_own_joint_norm():
    paths = ("s/query_tower/a", "s/query_tower/b", "s/title_tower/a")
    variables = [SimpleNamespace(path=path) for path in paths]
    gradients = [tf.constant([3.0]), tf.constant([[0.0, 4.0]]), tf.constant([0.6, 0.8])]
    clipped = clip_by_tower(gradients, variables, threshold=1.0)
    # The query tower's norm is sqrt(9 + 16) = 5, cut to 1; the title tower's is 1 already.
    assert np.array(clipped[0]) == pytest.approx(np.array([0.6]))
    assert np.array(clipped[1]) == pytest.approx(np.array([[0.0, 0.8]]))
    assert np.array(clipped[2]) == pytest.approx(np.array([0.6, 0.8]))


def tiny_model(optimizer: ScheduledNesterov) -> tuple[keras.Model, tuple[np.ndarray, np.ndarray]]:
    """A compiled model and a batch."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3)])
    model.compile(optimizer, "mse")
    return model, (np.arange(8.0).reshape(4, 2) / 8, np.ones((4, 3)))


@pytest.mark.numeric
def test_what_is_kept_and_what_is_left_are_the_paper_s_parameters_not_the_look_ahead():
    updates, kept = 60, []
    optimizer = ScheduledNesterov(0.03, updates, clip_norm=0.05)
    model, batch = tiny_model(optimizer)

    def note(epoch, _):
        kept.append(Keeper.weights_of(model))
        mu = reference.momentum(epoch + 1, updates)
        steps = [mu * step.numpy() for step in optimizer._steps]
        for value, ahead, step in zip(kept[-1], model.get_weights(), steps, strict=True):
            np.testing.assert_allclose(value, ahead - step, atol=1e-6)
        assert any(np.abs(step).max() > 1e-4 for step in steps)

    told = keras.callbacks.LambdaCallback(on_epoch_end=note)
    data = tf.data.Dataset.from_tensors(batch).with_options(UNTUNED)
    model.fit(data, epochs=updates, shuffle=False, verbose=0, callbacks=[told])
    for value, left in zip(kept[-1], model.get_weights(), strict=True):
        np.testing.assert_allclose(left, value, atol=1e-6)


def test_averaged_weights_are_what_is_left_when_averaging_is_asked_for():
    variable = keras.Variable(np.float32([1.0, -2.0]))
    optimizer = ScheduledNesterov(0.1, 100, use_ema=True, ema_momentum=0.5)
    optimizer.build([variable])
    for _ in range(5):
        optimizer.apply([tf.constant(slope(variable.numpy()), tf.float32)], [variable])
    average = optimizer._model_variables_moving_average[0].numpy()
    optimizer.finalize_variable_values([variable])
    np.testing.assert_allclose(variable.numpy(), average, atol=1e-6)


def test_a_saved_model_goes_on_as_if_it_had_never_been_saved(tmp_path):
    options = {"total_updates": 40, "momentum": 0.99, "edge_momentum": 0.8, "edge": 0.1,
               "clip_norm": 3.0}  # fmt: skip
    model, batch = tiny_model(ScheduledNesterov(0.05, **options))
    for _ in range(2):
        model.train_on_batch(*batch)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.optimizer.get_config() == model.optimizer.get_config()
    assert {name: getattr(again.optimizer, name) for name in options} == options
    for one in (model, again):
        one.train_on_batch(*batch)
    for first, second in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_optimisers_are_made_by_name():
    def made(name, **options):
        section = OptimizerConfig(name=name, learning_rate=0.1, clip_norm=2.0, options=options)
        return make_optimizer(section, 50, use_ema=True)

    paper, adam = made("nesterov", momentum=0.9), made("adam", beta_1=0.8, use_ema=False)
    assert isinstance(paper, ScheduledNesterov)
    assert (paper.total_updates, paper.clip_norm, paper.momentum) == (50, 2.0, 0.9)
    assert (paper.use_ema, adam.use_ema) == (True, False)
    assert isinstance(adam, keras.optimizers.Adam)
    assert (adam.global_clipnorm, adam.beta_1) == (2.0, 0.8)
    assert float(adam.learning_rate) == pytest.approx(0.1)
    assert make_optimizer(OptimizerConfig(name="sgd")).global_clipnorm is None


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("adamm", {}),
        ("adam", {"beta": 1}),
        ("adam", {"beta_1": "x"}),
        ("nesterov", {"edge": None}),
    ],
)
def test_a_wrong_name_or_option_is_refused_before_anything_is_trained(name, options):
    with pytest.raises(UserError, match=rf"^optimizer: '{name}' .* was refused \(.+\);[^\n]+$"):
        check_optimizer(OptimizerConfig(name=name, options=options))
