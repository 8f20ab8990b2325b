"""Exports have the expected outputs in a TensorFlow session, as in TensorFlow Serving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pytest import approx
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.export.signatures import INPUTS
from dssm_tf.export.verify import ADVERSARIAL
from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.clicks import Data
from tests.components import TOWER_CONFIGS, changed_values
from tests.export.conftest import WEIGHT
from tests.runs import finished_run

TEXTS = [text.encode("utf-8", "surrogatepass") for text in (*ADVERSARIAL, "RED fox!", "green owl")]
Calls = list[tuple[str, dict[str, list[bytes]]]]


def calls_of(directory: Path, model: str) -> Calls:
    """The calls to test: all texts for each signature, and the warm-up requests."""
    calls: Calls = [(signature, dict.fromkeys(names, TEXTS)) for signature, names in INPUTS.items()]
    warm_up = directory / "assets.extra" / "tf_serving_warmup_requests"
    for raw in tf.data.TFRecordDataset(str(warm_up)).with_options(WITHOUT_AUTOTUNING):
        request = PredictionLog.FromString(raw.numpy()).predict_log.request
        assert request.model_spec.name == model
        inputs = {key: list(tf.make_ndarray(tensor)) for key, tensor in request.inputs.items()}
        calls.append((request.model_spec.signature_name, inputs))
    warm_up_signatures = [signature for signature, _ in calls[len(INPUTS) :]]
    assert warm_up_signatures == [signature for signature in INPUTS for _ in range(2)]
    return calls


def run_signatures(directory: Path, calls: Calls) -> list[np.ndarray]:
    """Runs the graph with its restored variables, without Python code of the package."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(directory))
        outputs = []
        for name, inputs in calls:
            signature = meta.signature_def[name]
            (output,) = signature.outputs.values()
            feed = {signature.inputs[key].name: texts for key, texts in inputs.items()}
            outputs.append(session.run(output.name, feed))
        return outputs


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("dssm", "bilstm") else pytest.param(name, marks=pytest.mark.slow)
        for name in TOWER_CONFIGS
    ],
)
def test_every_signature_and_warm_up_request_has_the_outputs_of_the_keras_model(
    data: Data, tmp_path, name
):
    """All arguments of the tower differ from their defaults."""
    tower = {"name": name, **changed_values(TOWER_CONFIGS[name])}
    config: dict[str, Any] = {"tower": tower, "shared_towers": name == "dssm"}
    run = finished_run(tmp_path / "run", data, config, WEIGHT)
    directory = export_saved_model(run, tmp_path / "models", name)
    ranker, calls = SemanticRanker.load(run), calls_of(directory, name)

    def expected(inputs: dict[str, list[bytes]]) -> np.ndarray:
        texts = {key: [text.decode("utf-8", "replace") for text in inputs[key]] for key in inputs}
        if len(texts) == 2:
            return np.sum(
                expected({"queries": inputs["queries"]}) * expected({"titles": inputs["titles"]}), 1
            )
        if "queries" in texts:
            vectors = ranker.encode_queries(texts["queries"])
            return np.column_stack([vectors, np.ones(len(vectors))])
        prior = WEIGHT * ranker.prior(texts["titles"])
        return np.column_stack([ranker.encode_titles(texts["titles"]), prior])

    for (signature, inputs), output in zip(calls, run_signatures(directory, calls), strict=True):
        assert output.dtype == np.float32
        assert output == approx(expected(inputs), abs=1e-5), signature
