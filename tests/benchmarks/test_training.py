"""The benchmark of the training speed runs on a CPU, and PyTorch's models have the same scores."""

from __future__ import annotations

import sys
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.config import find_config, load_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.text.rules import FOLDED, NGRAM_KINDS
from dssm_tf.training.devices import Devices
from dssm_tf.training.resolve import resolve_config
from tests.benchmarks import training
from tests.benchmarks.training import MODELS, Rounds, measure_system, new_model, rows_of
from tests.clicks import Data, click_log, write_data
from tests.training.configuration import batches_of

SMALL = {
    "dssm": ["tower.widths=[8]"],
    "clsm": ["tower.features=6", "tower.widths=[5]"],
    "rnn": ["tower.hidden=6"],
    "maxsim": ["tower.units=6"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Data:
    return write_data(
        tmp_path_factory.mktemp("training") / "data",
        click_log(),
        rules=replace(FOLDED, letter_ngrams=NGRAM_KINDS),
    )


def overrides(name):
    """Settings of a small model and a small batch."""
    small = SMALL.get(name, ["tower.cells=5"])
    return [*small, "training.batch_size=8", "training.xla=false", "training.precision=float32"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["maxsim", "dssm", "reading"])
def test_a_model_is_measured_on_a_cpu(name, data):
    devices, rounds = Devices(tf.distribute.get_strategy()), Rounds(1, 1, 2)
    settings = overrides("lstm" if name == "reading" else name)
    speed, parts = measure_system(name, Preprocessed(data.path), devices, settings, rounds)
    assert speed > 0
    assert len(parts) == (0 if name == "reading" else 3)


def test_without_torch_its_rows_are_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not training.has_torch()
    assert rows_of(("lstm", "maxsim"), training.has_torch()) == ["reading", "lstm", "maxsim"]
    assert rows_of(("lstm",), torch=True) == ["reading", "lstm", "lstm, torch", "lstm, cuDNN"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_torch_has_the_same_scores_and_the_same_loss(name, data):
    torch = pytest.importorskip("torch")
    from tests.benchmarks.torch_models import TorchModel, click_softmax

    directory = Preprocessed(data.path)
    config, preprocessed = resolve_config(
        load_config(find_config(name), overrides(name)), directory
    )
    model = new_model(config, preprocessed)
    random = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(random.normal(0, 0.4, weight.shape))
    twin = TorchModel(model, config).eval()
    batch = next(iter(batches_of(config, preprocessed).epochs(0, 0, 1)))
    inputs, labels, weights = tf.nest.map_structure(
        lambda value: torch.from_numpy(value.numpy()), batch
    )
    scores = twin(inputs)
    assert scores.detach().numpy() == pytest.approx(np.array(model(batch[0])), abs=1e-5)
    loss = click_softmax(scores, labels, weights, config.loss.gamma)
    per_query = training.build_loss(config.loss, config.lists)
    expected = per_query(batch[1], keras.ops.convert_to_tensor(scores.detach().numpy()), batch[2])
    total = float(weights.sum()) / len(weights)
    assert float(loss.detach()) * total == pytest.approx(float(expected), rel=1e-4)
    loss.backward()
    assert all(weight.grad is not None for weight in twin.parameters())
