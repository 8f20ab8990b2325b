"""REST as TensorFlow Serving's documentation has it, version 1."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from time import perf_counter

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.export.saved_model import load_export
from tests.server.conftest import QUERIES, TITLES


@pytest.fixture(scope="module")
def ask(server):
    """Asks by HTTP; returns the status and what the JSON says."""

    def ask(path: str, body=None, method: str | None = None):
        connection = http.client.HTTPConnection(server.rest_address, timeout=60)
        data = json.dumps(body) if isinstance(body, dict | list | str) else body
        connection.request(method or ("GET" if body is None else "POST"), path, data)
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        told = json.loads(answer.read())
        connection.close()
        return answer.status, told

    return ask


PREDICT = "/v1/models/pets:predict"


@pytest.fixture(scope="module")
def wanted(exports):
    model = load_export(exports / "pets" / "2")
    given = {"queries": tf.constant(QUERIES), "titles": tf.constant(TITLES)}
    return {
        "scores": model.signatures["score"](**given)["scores"].numpy(),
        "titles": model.signatures["encode_title"](titles=given["titles"])["embeddings"].numpy(),
    }


ROWS = [{"queries": q, "titles": t} for q, t in zip(QUERIES, TITLES, strict=True)]


@pytest.mark.parametrize(
    ("body", "key", "output"),
    [
        ({"instances": ROWS}, "predictions", "scores"),
        ({"inputs": {"queries": QUERIES, "titles": TITLES}}, "outputs", "scores"),
        ({"signature_name": "score", "instances": ROWS}, "predictions", "scores"),
        ({"signature_name": "encode_title", "instances": TITLES}, "predictions", "titles"),
        ({"signature_name": "encode_title", "instances": [{"titles": t} for t in TITLES]},
         "predictions", "titles"),
        ({"signature_name": "encode_title", "inputs": TITLES}, "outputs", "titles"),
        ({"signature_name": "encode_title", "inputs": {"titles": TITLES}}, "outputs", "titles"),
        ({"signature_name": "encode_title",
          "inputs": [{"b64": base64.b64encode(t.encode()).decode()} for t in TITLES]},
         "outputs", "titles"),
    ],
)  # fmt: skip
def test_rows_and_columns_are_answered_in_kind(ask, wanted, body, key, output):
    for path in (
        PREDICT,
        "/v1/models/pets/versions/2:predict",
        PREDICT.upper().replace("PETS", "pets"),
    ):
        status, told = ask(path, body)
        assert (status, list(told)) == (200, [key])
        # Nine digits: the same float32.
        assert np.array_equal(np.array(told[key], np.float32), wanted[output])


def test_a_kept_connection_is_answered_at_once(server):
    connection = http.client.HTTPConnection(server.rest_address, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    seconds = []
    for _ in range(30):
        started = perf_counter()
        connection.request("POST", PREDICT, json.dumps({"instances": ROWS}))
        connection.getresponse().read()
        seconds.append(perf_counter() - started)
    connection.close()
    # Where the server waits for the acknowledgement of a first packet, it is 40 ms each time.
    assert min(seconds[5:]) < 0.035


def test_no_text_is_no_vector(ask):
    body = {"signature_name": "encode_title", "inputs": {"titles": []}}
    assert ask(PREDICT, body) == (200, {"outputs": []})


def test_the_status_is_as_documented(ask):
    version = {"version": "2", "state": "AVAILABLE"}
    version["status"] = {"error_code": "OK", "error_message": ""}
    for path in ("/v1/models/pets", "/v1/models/pets/versions/2"):
        assert ask(path) == (200, {"model_version_status": [version]})


def test_the_metadata_are_as_documented(ask):
    status, told = ask("/v1/models/pets/metadata")
    assert (status, set(told)) == (200, {"model_spec", "metadata"})
    assert told["model_spec"] == {"name": "pets", "signature_name": "", "version": "2"}
    signatures = told["metadata"]["signature_def"]["signature_def"]
    assert signatures["encode_title"]["inputs"]["titles"] == {
        "dtype": "DT_STRING",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
        "name": "encode_title_titles:0",
    }
    (output,) = signatures["encode_title"]["outputs"].values()
    assert [dim["size"] for dim in output["tensor_shape"]["dim"]] == ["-1", "4"]
    assert signatures["score"]["method_name"] == "tensorflow/serving/predict"


def of(signature: str, **rest) -> dict:
    return {"signature_name": signature, **rest}


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/pest:predict", {"instances": ROWS}, 404, "Did you mean 'pets'?"),
        ("/v1/models/pest", None, 404, "'pest'"),
        ("/v1/models/pest/metadata", None, 404, "'pest'"),
        ("/v1/models/pets/versions/7:predict", {"instances": ROWS}, 404, "version"),
        ("/v1/models/pets/versions/7", None, 404, "version"),
        (f"/v1/models/pets/versions/{1 << 64}", None, 400, "no version"),
        ("/v1/models/pets/labels/canary:predict", {"instances": ROWS}, 400, "version_label"),
        ("/v1/models", None, 400, "/v1/models/NAME"),
        ("/v1/models/pets:guess", {"instances": ROWS}, 400, ":predict"),
        ("/v1/models/pets:classify", {"examples": []}, 400, ":predict"),
        ("/v1/models/pets:predict", None, 400, "POST"),
        ("/v2/models/pets", None, 404, "/v2/models/pets"),
        ("/", None, 404, "there is no /"),
        (PREDICT, b"", 400, "no JSON"),
        (PREDICT, b"{", 400, "no JSON"),
        (PREDICT, b'{"inputs": "\xff"}', 400, "no JSON"),
        (PREDICT, b"[" * 3000, 400, "no JSON"),
        (PREDICT, b"1" * 3000, 400, ""),
        (PREDICT, [1], 400, "the body is a list"),
        (PREDICT, {}, 400, "`instances` and `inputs`"),
        (PREDICT, {"instances": ROWS, "inputs": {}}, 400, "both or none"),
        (PREDICT, {"instances": []}, 400, "instances"),
        (PREDICT, {"instances": "a"}, 400, "instances"),
        (PREDICT, {"instances": ["a"]}, 400, "instances[0] is a text"),
        (PREDICT, {"instances": [*ROWS, {"queries": "a"}]}, 400, "instances[3] is ['queries']"),
        (PREDICT, {"instances": [*ROWS, {"queries": "a", "titles": 5}]}, 400,
         "instances[3]['titles'] is a number"),
        (PREDICT, {"inputs": TITLES}, 400, "expected an object with queries, titles"),
        (PREDICT, {"inputs": {"queries": QUERIES}}, 400, "inputs is ['queries']"),
        (PREDICT, {"inputs": {"queries": QUERIES[:2], "titles": TITLES}}, 400,
         "2 queries and 3 titles"),
        (PREDICT, of("encode_title", inputs="a"), 400, "inputs is a text"),
        (PREDICT, of("encode_title", inputs=[["a"]]), 400, "inputs[0] is a list"),
        (PREDICT, of("encode_title", inputs=["a", None]), 400, "inputs[1] is null"),
        (PREDICT, of("encode_title", inputs=[True]), 400, "a boolean"),
        (PREDICT, of("encode_title", inputs=[{"b64": "*"}]), 400, "inputs[0]['b64']"),
        (PREDICT, of("encode_title", inputs=[{"b64": 5}]), 400, "inputs[0] is an object"),
        (PREDICT, of("encode_title", instances=["a", {"titles": "a"}]), 400, "instances[1]"),
        (PREDICT, of(5, inputs=["a"]), 400, "signature_name"),
        (PREDICT, of("scores", instances=ROWS), 400, "Did you mean 'score'?"),
        (PREDICT, of("__saved_model_init_op", instances=ROWS), 400, "signature_name"),
        (PREDICT, of("encode_title", inputs=["a"] * 9), 400, "9 texts, more than max_batch"),
        (PREDICT, of("encode_title", inputs=["a", "b" * 101]), 400,
         "inputs['titles'][1] has 101 bytes, more than max_text_bytes, 100"),
        (PREDICT, of("encode_title", inputs=["b" * 4000]), 413, "max_body_bytes, 4,000"),
        (PREDICT, b" " * 3_000_000, 413, "3,000,000 bytes"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_answered_names_the_field(ask, path, body, status, words):
    found, told = ask(path, body)
    assert (found, list(told)) == (status, ["error"])
    assert words in told["error"]
    assert "\n" not in told["error"]


def test_other_methods_are_refused(ask):
    for method in ("DELETE", "PUT", "PATCH"):
        assert ask(PREDICT, {"instances": ROWS}, method)[0] == 400


def scraped(server) -> str:
    connection = http.client.HTTPConnection(server.rest_address, timeout=60)
    connection.request("GET", "/monitoring/prometheus/metrics")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert (answer.status, answer.getheader("Content-Type")) == (200, "text/plain")
    return text


def value(text: str, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_metrics_have_the_names_of_tensorflow_serving(server, ask, exports):
    fine = ':tensorflow:serving:request_count{model_name="pets",status="OK"}'
    refused = ':tensorflow:serving:request_count{model_name="pets",status="INVALID_ARGUMENT"}'
    nobody = ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"}'
    labels = 'model_name="pets",API="predict",entrypoint="REST"'
    latencies = f":tensorflow:serving:request_latency_count{{{labels}}}"
    below_all = f':tensorflow:serving:request_latency_bucket{{{labels},le="+Inf"}}'
    before = scraped(server)
    assert ask(PREDICT, {"instances": ROWS})[0] == 200
    assert ask(PREDICT, {"instances": 5})[0] == 400
    assert ask('/v1/models/p"e\\t:predict', {"instances": ROWS})[0] == 404
    after = scraped(server)
    for line, more in ((fine, 1), (refused, 1), (nobody, 1), (latencies, 2), (below_all, 2)):
        assert value(after, line) - value(before, line) == more
    path = exports / "pets" / "2"
    loads = f':tensorflow:cc:saved_model:load_attempt_count{{model_path="{path}",status="success"}}'
    assert value(after, loads) == 1
    # Each line is a comment or a sample, as Prometheus reads it.
    sample = r':[a-z:_]+\{(\w+="(\\.|[^"\\])*",?)*\} \d[\d.e+]*'
    for one in after.splitlines():
        assert re.fullmatch(rf"# TYPE :[a-z:_]+ (counter|histogram)|{sample}", one), one
    ends = re.findall(rf"latency_bucket{{{labels},le=\"(\S+)\"}} (\d+)", after)
    assert [float(end) for end, _ in ends] == sorted(float(end) for end, _ in ends)
    assert [int(count) for _, count in ends] == sorted(int(count) for _, count in ends)
