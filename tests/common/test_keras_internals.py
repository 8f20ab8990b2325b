"""What Keras keeps to itself is what we take it for; `make test-keras` asks an older Keras too."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.keras_internals import moving_averages, variable_index

pytestmark = pytest.mark.keras


def built(optimizer: keras.optimizers.Optimizer, *values: float) -> list[keras.Variable]:
    variables = [keras.Variable(np.float32(value)) for value in values]
    optimizer.build(variables)
    return variables


def test_averages_stand_in_the_order_of_the_variables_and_are_of_the_weights():
    optimizer = keras.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75)
    variables = built(optimizer, 8.0, 80.0)
    for _ in range(2):
        optimizer.apply([np.float32(1.0), np.float32(10.0)], variables)
    # The first update's weight is 7, where the average starts; the second's 6: 3/4 * 7 + 1/4 * 6.
    assert [float(one) for one in moving_averages(optimizer)] == approx([6.75, 67.5])


def test_a_variable_is_found_where_the_optimizer_has_it():
    optimizer = keras.optimizers.SGD(1.0)
    variables = built(optimizer, 1.0, 2.0, 3.0)
    assert [variable_index(optimizer, one) for one in variables] == [0, 1, 2]
