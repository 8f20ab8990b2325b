"""Private functions of Keras behave as expected; `make test-keras` tests an older Keras, too."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.keras_internals import moving_averages, variable_index

pytestmark = pytest.mark.keras


def build_variables(optimizer: keras.optimizers.Optimizer, *values: float) -> list[keras.Variable]:
    variables = [keras.Variable(np.float32(value)) for value in values]
    optimizer.build(variables)
    return variables


def test_moving_averages_are_in_the_order_of_the_variables():
    optimizer = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75)
    variables = build_variables(optimizer, 8.0, 80.0)
    for _ in range(2):
        optimizer.apply([np.float32(1.0), np.float32(10.0)], variables)
    # After the first update the weight and the average are 7; the next weight is 6:
    # 3/4 * 7 + 1/4 * 6 = 6.75.
    assert [float(average) for average in moving_averages(optimizer)] == approx([6.75, 67.5])


def test_the_index_of_a_variable_is_its_position_in_the_optimizer():
    optimizer = keras.optimizers.SGD(1.0)
    variables = build_variables(optimizer, 1.0, 2.0, 3.0)
    assert [variable_index(optimizer, variable) for variable in variables] == [0, 1, 2]
