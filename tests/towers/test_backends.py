"""Towers, cosine and loss give the same numbers and gradients on Keras's other backends.

Layers, towers and losses use `keras.ops` only. PyTorch and JAX are compared with TensorFlow where
they are installed. All numbers are float32, so they agree up to rounding: cosines and losses within
1e-5, gradients within 1e-5 of the model's largest entry.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.model.siamese import Siamese
from tests.components import (
    CLICK_LOSS_CONFIGS,
    TOWER_CONFIGS,
    build_loss,
    build_tower,
    changed_values,
    small_sizes,
)
from tests.conftest import CHECKOUT
from tests.labels import labels
from tests.reference.letter_trigrams import text_batch, trigrams
from tests.towers.test_tower_contract import in_length_groups

QUERIES = [["cat"], ["dog", "food"], []]
TITLES = [["cats", "and", "dogs", "and", "birds"], ["dog", "food"], ["bird", "cage"], []]
CANDIDATES = np.array([[0, 2, 3], [1, 0, 2], [2, 2, 1]], np.int32)
LABELS = labels([[1, 1, 1], [1, 1, 0], [1, 0, 1]], [[0, -0.5, 0], [0, 0, 0], [0, 0.7, 0.2]])
KNOWN = list(dict.fromkeys(t for s in QUERIES + TITLES for word in s for t in trigrams(word)))
CASES = {  # without dropout, which has other random numbers on another backend
    name: (name, changed_values(config) | {"dropout": 0, "ngram_dropout": 0})
    for name, config in TOWER_CONFIGS.items()
}
CASES["clsm, window 1"] = ("clsm", small_sizes(TOWER_CONFIGS["clsm"]) | {"window": 1})
# One tower for both sides, which reads one text batch in length groups.
SHARED = {f"{name}, shared": (name, small_sizes(TOWER_CONFIGS[name])) for name in ("dssm", "lstm")}
CASES |= SHARED
DEFAULT_CASES = ["clsm", "lstm, shared"]
"""The default tests have these cases; slow tests have the others."""

OTHER_BACKEND = """
import pickle, sys
import keras, numpy as np
import dssm_tf.model.siamese
from tests.components import CLICK_LOSS_CONFIGS, build_loss  # registers all classes

folder = sys.argv[1]
cases = sys.argv[2].split(";")
backend = keras.backend.backend()
assert folder.endswith(backend), backend
convert = keras.ops.convert_to_numpy


def losses(labels, scores):
    return [build_loss(name)(labels, scores) for name in CLICK_LOSS_CONFIGS]


def torch_gradients(model, inputs, labels):
    cosines = model(inputs, training=True)
    values = losses(labels, cosines)
    sum(values).backward()
    return cosines, values, [variable.value.grad for variable in model.trainable_variables]


def jax_gradients(model, inputs, labels):
    import jax

    def forward(trainable):
        fixed = [variable.value for variable in model.non_trainable_variables]
        cosines, _ = model.stateless_call(trainable, fixed, inputs, training=True)
        values = losses(labels, cosines)
        return sum(values), (cosines, values)

    trainable = [variable.value for variable in model.trainable_variables]
    value_and_gradients = jax.jit(jax.value_and_grad(forward, has_aux=True))
    (_, (cosines, values)), gradients = value_and_gradients(trainable)
    return cosines, values, gradients


for case in cases:
    with open(f"{folder}/{case}.pickle", "rb") as file:
        inputs, labels, *expected = pickle.load(file)
    model = keras.saving.load_model(f"{folder}/{case}.keras")
    calculate = torch_gradients if backend == "torch" else jax_gradients
    cosines, values, gradients = calculate(model, inputs, labels)
    np.testing.assert_allclose(convert(cosines), expected[0], atol=1e-5, err_msg=case)
    for value, expected_value in zip(values, expected[1], strict=True):
        np.testing.assert_allclose(convert(value), expected_value, atol=1e-5, err_msg=case)
    largest = max(np.abs(gradient).max() for gradient in expected[2])
    for variable, gradient, expected_gradient in zip(
        model.trainable_variables, gradients, expected[2], strict=True
    ):
        np.testing.assert_allclose(
            convert(gradient),
            expected_gradient,
            atol=1e-5 * largest,
            err_msg=f"{case}: {variable.path}",
        )
"""


def save(case: str, folder) -> None:
    """Writes the model of a case, its inputs, and its outputs on this backend."""
    name, options = CASES[case]
    keras.utils.set_random_seed(0)
    towers = [build_tower(name, len(KNOWN), **options) for _ in range(1 if case in SHARED else 2)]
    model = Siamese(*towers)
    model.build()
    generator = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    texts = {"query": text_batch(QUERIES, KNOWN), "titles": text_batch(TITLES, KNOWN)}
    if case in SHARED:
        texts = {"texts": in_length_groups(text_batch(QUERIES + TITLES, KNOWN))}
    inputs = texts | {"candidates": CANDIDATES}
    with tf.GradientTape() as tape:
        cosines = model(inputs, training=True)
        losses = [build_loss(name)(LABELS, cosines) for name in CLICK_LOSS_CONFIGS]
        total = sum(losses)
    gradients = tape.gradient(total, model.trainable_variables)
    model.save(folder / f"{case}.keras")
    outputs = [np.array(cosines), [*map(np.array, losses)], [*map(np.array, gradients)]]
    (folder / f"{case}.pickle").write_bytes(pickle.dumps([inputs, LABELS, *outputs]))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize(
    "cases",
    [
        DEFAULT_CASES,
        pytest.param([case for case in CASES if case not in DEFAULT_CASES], marks=pytest.mark.slow),
    ],
    ids=["frequent", "others"],
)
def test_a_model_has_the_same_scores_and_gradients_on_another_backend(cases, backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    folder = tmp_path / f"on-{backend}"
    folder.mkdir()
    for case in cases:
        save(case, folder)
    process = subprocess.run(
        [sys.executable, "-c", OTHER_BACKEND, str(folder), ";".join(cases)],
        # JAX spends most of the time compiling, and each program runs once.
        cwd=CHECKOUT,
        env=os.environ | {"KERAS_BACKEND": backend, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-3000:]
