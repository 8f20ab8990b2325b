"""Towers, cosine and loss give the same numbers on another Keras backend.

Layers, towers and losses use `keras.ops` only; PyTorch, where it is installed, is the witness.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from dssm_tf.losses import ClickSoftmax
from dssm_tf.siamese import Siamese
from dssm_tf.towers import TOWERS
from tests.reference.letter_trigrams import text_batch, trigrams

QUERIES = [["cat"], ["dog", "food"], []]
TITLES = [["cats", "and", "dogs"], ["dog", "food"], ["bird", "cage"], []]
CANDIDATES = np.array([[0, 2, 3], [1, 0, 2], [2, 2, 1]], np.int32)
KNOWN = list(dict.fromkeys(t for s in QUERIES + TITLES for word in s for t in trigrams(word)))
OPTIONS = {"dssm": {"widths": (6, 4)}, "lstm": {"cells": 4}}

OTHER_BACKEND = """
import sys
import keras, numpy as np
import dssm_tf.siamese, dssm_tf.towers
from dssm_tf.losses import ClickSoftmax
assert keras.backend.backend() == "torch"
folder = sys.argv[1]
for name in dssm_tf.towers.TOWERS:
    model = keras.saving.load_model(f"{folder}/{name}.keras")
    saved = np.load(f"{folder}/{name}.npz")
    text = lambda side: {"word_ngrams": saved[side + "_ngrams"], "tokens": saved[side + "_tokens"]}
    inputs = {"query": text("query"), "titles": text("titles"), "candidates": saved["candidates"]}
    cosines = model(inputs)
    loss = ClickSoftmax(10.0)(np.zeros(cosines.shape, "float32"), cosines)
    convert = keras.ops.convert_to_numpy
    np.testing.assert_allclose(convert(cosines), saved["cosines"], atol=1e-5)
    np.testing.assert_allclose(convert(loss), saved["loss"], atol=1e-5)
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_model_saved_here_scores_the_same_on_pytorch(tmp_path):
    assert set(OPTIONS) == set(TOWERS)
    sides = {"query": text_batch(QUERIES, KNOWN), "titles": text_batch(TITLES, KNOWN)}
    inputs = sides | {"candidates": CANDIDATES}
    for name, kind in TOWERS.items():
        keras.utils.set_random_seed(0)
        model = Siamese(kind(len(KNOWN), **OPTIONS[name]), kind(len(KNOWN), **OPTIONS[name]))
        cosines = np.array(model(inputs))
        model.save(tmp_path / f"{name}.keras")
        np.savez(
            tmp_path / f"{name}.npz",
            cosines=cosines,
            loss=np.array(ClickSoftmax(10.0)(np.zeros(cosines.shape, np.float32), cosines)),
            candidates=CANDIDATES,
            **{f"{side}_ngrams": batch["word_ngrams"] for side, batch in sides.items()},
            **{f"{side}_tokens": batch["tokens"] for side, batch in sides.items()},
        )
    done = subprocess.run(
        [sys.executable, "-c", OTHER_BACKEND, str(tmp_path)],
        env=os.environ | {"KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
