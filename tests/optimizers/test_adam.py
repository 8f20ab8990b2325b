"""Adam in one TensorFlow operation gives the updates of Keras's Adam."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.config import parse_config
from dssm_tf.optimizers import Adam
from tests.training.configuration import config

pytestmark = [pytest.mark.keras, pytest.mark.numeric]

UPDATES = 30


def descend(
    optimizer: keras.optimizers.Optimizer, dtype: str = "float64", sparse: bool = False, apply=None
):
    """All variables, the optimizer's too, after some updates with random gradients."""
    generator = np.random.default_rng(5)
    variables = [keras.Variable(generator.normal(size=(4, 3)), dtype=dtype) for _ in range(2)]
    optimizer.build(variables)
    for _ in range(UPDATES):
        gradients = [tf.constant(generator.normal(size=(4, 3)), dtype) for _ in variables]
        if sparse:
            gradients[0] = tf.IndexedSlices(gradients[0][:2], tf.constant([2, 0]), (4, 3))
        (apply or optimizer.apply)(gradients, variables)
    return [variable.numpy() for variable in [*variables, *optimizer.variables]]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learning_rate": keras.optimizers.schedules.CosineDecay(0.1, UPDATES)},
        {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 2.0**-10},
        {"weight_decay": 0.125},
        {"use_ema": True, "ema_momentum": 0.875},
        {"global_clipnorm": 0.5},
        {"amsgrad": True},
    ],
)
def test_all_variables_equal_those_of_keras_adam(options, sparse):
    # Powers of two: Keras rounds these numbers to float32.
    exact = {"learning_rate": 0.125, "beta_1": 0.875, "beta_2": 1 - 2.0**-10, "epsilon": 2.0**-24}
    options = exact | options
    values, expected_values = (
        descend(optimizer(**options), sparse=sparse) for optimizer in (Adam, keras.optimizers.Adam)
    )
    for actual, expected in zip(values, expected_values, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("xla", [False, True])
def test_updates_in_a_graph_equal_those_of_keras_adam(xla):
    options = {"learning_rate": 0.125, "beta_1": 0.875, "beta_2": 1 - 2.0**-10, "epsilon": 2.0**-24}
    options |= {"use_ema": True, "ema_momentum": 0.875, "weight_decay": 0.125, "clipnorm": 0.5}
    optimizer = Adam(**options)

    apply = tf.function(lambda gradients: optimizer.apply(gradients), jit_compile=xla)
    values = descend(optimizer, apply=lambda gradients, _: apply(gradients))
    for actual, expected in zip(values, descend(keras.optimizers.Adam(**options)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-14)


REPLICAS = """
import keras, numpy as np, tensorflow as tf
from dssm_tf.optimizers import Adam

device = tf.config.LogicalDeviceConfiguration()
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [device] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def descend(kind):
    with strategy.scope():
        variable = keras.Variable(np.linspace(-1, 1, 6), dtype="float64")
        optimizer = kind(
            0.125, 0.875, 1 - 2.0**-10, 2.0**-24, use_ema=True, ema_momentum=0.875,
            weight_decay=0.125, clipnorm=0.5,
        )
        optimizer.build([variable])

    def replica_step(step):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        angles = tf.range(6, dtype=tf.float64) + tf.cast(step + 3 * replica, tf.float64)
        optimizer.apply([tf.sin(angles)], [variable])

    run = tf.function(lambda step: strategy.run(replica_step, (step,)))
    for step in range(8):
        run(tf.constant(step))
    return [
        copy.numpy()
        for variable in [variable, *optimizer.variables]
        for copy in strategy.experimental_local_results(variable.value)
    ]


values, expected_values = descend(Adam), descend(keras.optimizers.Adam)
assert len(values) > 7, len(values)
assert np.ptp(values[0] - np.linspace(-1, 1, 6)) > 0.1
for actual, expected in zip(values, expected_values, strict=True):
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-14)
"""


def test_updates_on_two_replicas_equal_those_of_keras_adam():
    run = subprocess.run([sys.executable, "-c", REPLICAS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]


def test_updates_are_those_of_the_paper():
    """Kingma and Ba 2015, sec. 2: moments, bias correction, and epsilon as in its last form."""
    rate, beta_1, beta_2, epsilon = 0.125, 0.75, 0.9375, 2.0**-14  # exact in float32
    variable = keras.Variable([1.0, -2.0, 0.5], dtype="float64")
    optimizer = Adam(rate, beta_1, beta_2, epsilon)
    optimizer.build([variable])
    point, m, v = variable.numpy(), np.zeros(3), np.zeros(3)
    for t in range(1, UPDATES + 1):
        gradient = np.sin(t + np.arange(3.0))
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        step = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        point = point - step * m / (np.sqrt(v) + epsilon)
        optimizer.apply([tf.constant(gradient)], [variable])
        np.testing.assert_allclose(variable.numpy(), point, rtol=1e-12)


def test_the_optimizer_named_adam_is_this_class_and_can_be_saved():
    optimizer = parse_config(config(optimizer__name="adam")).optimizer.build()
    assert type(optimizer) is Adam
    config_of_optimizer = keras.optimizers.serialize(optimizer)
    assert type(keras.optimizers.deserialize(config_of_optimizer)) is Adam
