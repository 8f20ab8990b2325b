"""The initial weights of the recurrent towers."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.config import find_config, load_config
from dssm_tf.model.build import build_model
from tests.reference.paper_settings import P16

RECURRENT = [name for name, row in P16.items() if row.tower["name"] in ("rnn", "lstm", "bilstm")]


@pytest.mark.parametrize("name", RECURRENT)
def test_the_paper_s_configurations_set_all_parameters_to_small_random_numbers(name):
    """By algorithm 1 of Palangi et al. 2016, all parameters start with small random numbers."""
    keras.utils.set_random_seed(0)
    config = load_config(find_config(f"paper/{name}"))
    for weight in build_model(config, 20).weights:
        if not weight.dtype.startswith("float"):
            continue  # the state of a random generator
        values = weight.numpy().ravel()
        # Keras's small numbers are normal with deviation 0.05; four standard errors either way.
        assert (values != 0).all(), weight.path
        assert abs(values.mean()) < 4 * 0.05 / np.sqrt(values.size), weight.path
        assert abs(values.std() - 0.05) < 4 * 0.05 / np.sqrt(2 * values.size), weight.path


@pytest.mark.parametrize("name", ["rnn", "lstm", "bilstm"])
def test_by_default_only_the_forget_gate_has_a_bias(name):
    config = load_config(find_config(name))
    for weight in build_model(config, 20).weights:
        if weight.path.endswith("/bias"):
            expected = [0, 1, 0, 0] if "lstm" in name else [0]
            blocks = np.split(weight.numpy(), len(expected))
            assert [set(block) for block in blocks] == [{value} for value in expected]
