"""The SavedModel in TensorFlow's Java API: another loader, another runtime."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from google.protobuf import wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from dssm_tf.export.saved_model import ExportedRanker, export_saved_model
from serving import predict_pb2
from tests.clicks import click_log, write_data
from tests.engines.engines import CHECKOUT, INSTALLED
from tests.runs import finished_run
from tests.server.asking import request_of

JARS = INSTALLED / "tensorflow"
TITLES = ["red fox", "blue owl", "", "Größe 42"]


@pytest.mark.engines
@pytest.mark.parametrize(
    ("signature", "inputs", "output"),
    [
        ("score", {"queries": ["red fox"] * 4, "titles": TITLES}, "scores"),
        ("encode_title", {"titles": TITLES}, "embeddings"),
    ],
)
def test_java_returns_the_same_outputs_as_python(tmp_path, signature, inputs, output):
    if not JARS.is_dir():
        pytest.skip("run `make test-engines`, which needs Java 11 or newer and Maven")
    data = write_data(tmp_path / "data", click_log(), validation=())
    run = finished_run(tmp_path / "run", data, {"tower": {"name": "dssm", "widths": [8, 6]}})
    model = export_saved_model(run, tmp_path / "export" / "model")
    request = request_of("model", signature, **inputs)
    (tmp_path / "request").write_bytes(request.SerializeToString())
    compiled = FileDescriptorSet()
    for file in (wrappers_pb2.DESCRIPTOR, predict_pb2.DESCRIPTOR):
        file.CopyToProto(compiled.file.add())
    (tmp_path / "descriptors").write_bytes(compiled.SerializeToString())
    names = [model, *(tmp_path / name for name in ("descriptors", "request", "response"))]
    program = ["java", "-cp", f"{JARS}/*", CHECKOUT / "tests/engines/Predict.java"]
    process = subprocess.run(list(map(str, [*program, *names])), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    response = predict_pb2.PredictResponse.FromString((tmp_path / "response").read_bytes())
    ranker = ExportedRanker(model)
    expected = ranker.encode_titles(TITLES, prior=True)
    if signature == "score":
        expected = ranker.score("red fox", TITLES)
    actual = np.array(response.outputs[output].float_val, np.float32)
    np.testing.assert_allclose(actual, np.ravel(expected), atol=1e-6)
