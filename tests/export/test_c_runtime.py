"""TensorFlow's own runtime as the judge: the export in a process that holds no line of ours."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from pytest import approx
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from dssm_tf.export.saved_model import ADVERSARIAL, export
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.text.rules import Rules
from dssm_tf.towers import TOWERS
from tests.choices import changed
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


Calls = list[tuple[str, dict[str, list[bytes]]]]


class Judged(NamedTuple):
    """An export, the model that it is of, what is asked, and what TensorFlow's runtime answered."""

    ranker: SemanticRanker
    calls: Calls
    answers: list[dict[str, Any]] | str


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> dict[str, Judged]:
    """Every tower, no argument of which is the default, all of them asked in one process."""
    folder = tmp_path_factory.mktemp("judged")
    # Few words and letters, and hash buckets: texts are cut and unseen trigrams matter.
    rules = Rules(False, max_words=6, max_letters=9, hash_buckets=7)
    data = write_data(folder / "data", LOG, validation=(), negatives=1, rules=rules)
    exports, calls = {}, {}
    for name, choice in TOWERS.items():
        config = {"tower": {"name": name, **changed(choice)}}
        run = finished_run(folder / name, data, config, WEIGHT)
        exports[name], calls[name] = run, calls_of(export(run, folder / "models", name))
    script = Path(__file__).with_name("c_runtime.py")
    asked = {
        str(folder / "models" / name / "1"): encoded(folder / "models" / name / "1", of)
        for name, of in calls.items()
    }
    done = subprocess.run(
        [sys.executable, str(script), str(Path(tf.__file__).parent)],
        input=json.dumps(asked), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {
        name: Judged(SemanticRanker.load(exports[name]), calls[name], answers)
        for name, answers in zip(TOWERS, json.loads(done.stdout).values(), strict=True)
    }


def calls_of(directory: Path) -> Calls:
    """All texts to each signature, and the warm-up requests."""
    signatures = signatures_of(directory)
    calls = [(one, dict.fromkeys(signatures[one].inputs, TEXTS)) for one in sorted(signatures)]
    warm_up = directory / "assets.extra" / "tf_serving_warmup_requests"
    for raw in tf.data.TFRecordDataset(str(warm_up)):
        request = PredictionLog.FromString(raw.numpy()).predict_log.request
        inputs = {key: list(tf.make_ndarray(one)) for key, one in request.inputs.items()}
        calls.append((request.model_spec.signature_name, inputs))
    assert len(calls) == 3 * len(signatures)
    return calls


def encoded(directory: Path, calls: Calls) -> list[dict[str, Any]]:
    """Calls as `c_runtime.py` takes them."""
    signatures = signatures_of(directory)
    return [
        {
            "inputs": {
                signatures[name].inputs[key].name: [base64.b64encode(one).decode() for one in texts]
                for key, texts in inputs.items()
            },
            "outputs": [one.name for one in signatures[name].outputs.values()],
        }
        for name, inputs in calls
    ]


@pytest.mark.parametrize("name", TOWERS)
def test_every_signature_and_warm_up_request_is_answered_as_by_the_keras_model(name, judged):
    ranker, calls, answers = judged[name]
    assert not isinstance(answers, str), answers

    def wanted(signature: str, inputs: dict[str, list[bytes]]) -> np.ndarray:
        texts = {key: [one.decode("utf-8", "replace") for one in inputs[key]] for key in inputs}
        if signature == "encode_query":
            vectors = ranker.encode_queries(texts["queries"])
            extra = np.ones((len(vectors), 1))
        elif signature == "encode_title":
            vectors = ranker.encode_titles(texts["titles"])
            extra = ranker.prior_weight * ranker.prior(texts["titles"])[:, None]
        else:
            one, other = (wanted(f"encode_{side}", inputs) for side in ("query", "title"))
            return np.sum(one * other, axis=1)
        return np.hstack([vectors, extra])

    for (signature, inputs), answer in zip(calls, answers, strict=True):
        (tensor,) = answer.values()
        found = np.reshape(np.array(tensor["values"], np.float32), tensor["shape"])
        assert found == approx(wanted(signature, inputs), abs=1e-5), signature
