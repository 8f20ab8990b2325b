"""TensorFlow's own runtime as the judge: the export in a process that holds no line of ours."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pytest import approx
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from dssm_tf.export.saved_model import ADVERSARIAL, EPSILON, export, tolerance
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.towers import TOWERS
from tests.choices import small
from tests.clicks import Click, write_data
from tests.runs import finished_run

WEIGHT = 0.25
LOG = [Click("fox", "Red Fox", 5), Click("owl", "green owl", 2), Click("bear", "black bear", 1)]
TEXTS = [text.encode("utf-8", "surrogatepass") for text in (*ADVERSARIAL, "RED fox!", "green owl")]


def signatures_of(directory: Path) -> dict[str, Any]:
    """The served signatures: names of their inputs and outputs, and the tensors these are."""
    meta = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    found = dict(meta.meta_graphs[0].signature_def)
    del found["__saved_model_init_op"]
    return found


def answers(directory: Path, calls: list[tuple[str, dict[str, list[bytes]]]]) -> list[np.ndarray]:
    """What the C API answers to calls of signatures."""
    signatures = signatures_of(directory)
    asked = [
        {
            "inputs": {
                signatures[name].inputs[key].name: [base64.b64encode(one).decode() for one in texts]
                for key, texts in inputs.items()
            },
            "outputs": [one.name for one in signatures[name].outputs.values()],
        }
        for name, inputs in calls
    ]
    script = Path(__file__).with_name("c_runtime.py")
    done = subprocess.run(
        [sys.executable, str(script), str(Path(tf.__file__).parent), str(directory)],
        input=json.dumps(asked), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [
        np.reshape(np.array(tensor["values"], np.float32), tensor["shape"])
        for answer in json.loads(done.stdout)
        for tensor in answer.values()
    ]


@pytest.mark.parametrize("name", TOWERS)
def test_every_signature_and_warm_up_request_is_answered_as_by_the_keras_model(name, tmp_path):
    data = write_data(tmp_path / "data", LOG, validation=(), negatives=1)
    tower = {"name": name, **small(TOWERS[name])}
    run = finished_run(tmp_path / "run", data, {"tower": tower}, WEIGHT)
    exported, ranker = export(run, tmp_path / "models"), SemanticRanker.load(run)

    def wanted(signature: str, inputs: dict[str, list[bytes]]) -> np.ndarray:
        texts = {key: [one.decode("utf-8", "replace") for one in inputs[key]] for key in inputs}
        if signature.startswith("encode_query"):
            vectors = ranker.encode_queries(texts["queries"])
            extra = np.ones((len(vectors), 1))
        elif signature.startswith("encode_title"):
            vectors = ranker.encode_titles(texts["titles"])
            extra = ranker.prior_weight * ranker.prior(texts["titles"])[:, None]
        else:
            one, other = (
                wanted(f"encode_{side}_with_prior", inputs) for side in ("query", "title")
            )
            return np.sum(one * other, axis=1)
        return np.hstack([vectors, extra]) if signature.endswith("_with_prior") else vectors

    signatures = signatures_of(exported)
    calls = [(one, dict.fromkeys(signatures[one].inputs, TEXTS)) for one in sorted(signatures)]
    warm_up = exported / "assets.extra" / "tf_serving_warmup_requests"
    for raw in tf.data.TFRecordDataset(str(warm_up)):
        request = PredictionLog.FromString(raw.numpy()).predict_log.request
        inputs = {key: list(tf.make_ndarray(one)) for key, one in request.inputs.items()}
        calls.append((request.model_spec.signature_name, inputs))
    # Two vectors of length 1, each off by the tolerance, and a sum of the prior.
    prior = WEIGHT * np.abs(ranker.prior(["", "Red Fox"])).max()
    allowed = 2 * tolerance(ranker) + 4 * EPSILON * float(prior)
    found = answers(exported, calls)
    assert len(found) == len(calls) == 3 * len(signatures)
    for (signature, inputs), answer in zip(calls, found, strict=True):
        assert answer == approx(wanted(signature, inputs), abs=allowed), signature
