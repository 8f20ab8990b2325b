"""The REST API of TensorFlow Serving, and its errors."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
from time import perf_counter

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.export.signatures import INPUTS
from tests.server.asking import body_of, connect, rest
from tests.server.conftest import QUERIES, TITLES

PREDICT = "/v1/models/pets:predict"


@pytest.mark.parametrize("name", INPUTS)
def test_each_signature_returns_the_outputs_of_the_saved_model(server, signatures, name):
    inputs = {key: {"queries": QUERIES, "titles": TITLES}[key] for key in INPUTS[name]}
    code, text = rest(server.rest_address, PREDICT, body_of(name, **inputs))
    assert code == 200, text
    tensors = {key: tf.constant(texts) for key, texts in inputs.items()}
    (expected,) = signatures[name](**tensors).values()
    assert np.allclose(json.loads(text)["outputs"], expected.numpy(), atol=1e-6)


def test_a_reused_connection_is_answered_without_delay(server):
    connection = http.client.HTTPConnection(server.rest_address, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    seconds = []
    for _ in range(30):
        started = perf_counter()
        connection.request("POST", PREDICT, body_of("encode_query", queries=["fox"]))
        connection.getresponse().read()
        seconds.append(perf_counter() - started)
    connection.close()
    # Waiting for the acknowledgment of the first packet would take 40 ms per request.
    assert min(seconds[5:]) < 0.035


def test_an_empty_list_of_texts_has_no_vectors(server):
    code, text = rest(server.rest_address, PREDICT, body_of("encode_title", titles=[]))
    assert (code, json.loads(text)) == (200, {"outputs": []})


def test_the_model_status_has_the_documented_format(server):
    code, text = rest(server.rest_address, "/v1/models/pets")
    version = {"version": "2", "state": "AVAILABLE"}
    version["status"] = {"error_code": "OK", "error_message": ""}
    assert (code, json.loads(text)) == (200, {"model_version_status": [version]})


VALID = body_of("score", queries=QUERIES, titles=TITLES)


def test_rows_have_the_predictions_of_the_columns_outputs(server):
    rows = [
        {"queries": query, "titles": title} for query, title in zip(QUERIES, TITLES, strict=True)
    ]
    body = json.dumps({"signature_name": "score", "instances": rows}).encode()
    code, text = rest(server.rest_address, PREDICT, body)
    columns = json.loads(rest(server.rest_address, PREDICT, VALID)[1])
    assert (code, json.loads(text)) == (200, {"predictions": columns["outputs"]})
    # With one input, a row is its value. "Zm94" is "fox".
    outputs = json.loads(
        rest(server.rest_address, PREDICT, body_of("encode_query", queries=["fox", "fox"]))[1]
    )["outputs"]
    for key, values in (("instances", ["fox", {"b64": "Zm94"}]), ("inputs", ["fox", "fox"])):
        body = json.dumps({"signature_name": "encode_query", key: values}).encode()
        answer = json.loads(rest(server.rest_address, PREDICT, body)[1])
        assert answer == {"predictions" if key == "instances" else "outputs": outputs}


@pytest.mark.parametrize("path", ["/v1/models/pets", "/v1/models/pets/versions/2"])
def test_versions_and_metadata_have_their_own_paths(server, path):
    assert rest(server.rest_address, f"{path}:predict", VALID)[0] == 200
    assert rest(server.rest_address, path)[0] == 200
    code, text = rest(server.rest_address, f"{path}/metadata")
    metadata = json.loads(text)
    assert (code, metadata["model_spec"]) == (
        200, {"name": "pets", "signature_name": "", "version": "2"}
    )  # fmt: skip
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == set(INPUTS)
    # As in https://www.tensorflow.org/tfx/serving/api_rest.
    assert signatures["encode_query"]["method_name"] == "tensorflow/serving/predict"
    queries = signatures["encode_query"]["inputs"]["queries"]
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert (queries["dtype"], queries["tensor_shape"]) == ("DT_STRING", shape)
    sizes = signatures["encode_query"]["outputs"]["embeddings"]["tensor_shape"]["dim"]
    assert int(sizes[0]["size"]) == -1
    assert int(sizes[1]["size"]) > 1


def test_bodies_may_be_packed_by_gzip(server):
    expected = rest(server.rest_address, PREDICT, VALID)
    packed = gzip.compress(VALID)
    headers = {"Content-Encoding": "gzip"}
    assert rest(server.rest_address, PREDICT, packed, headers) == expected
    for body, code in ((VALID, 400), (packed[:-9], 400), (gzip.compress(b" " * 4001), 413)):
        assert rest(server.rest_address, PREDICT, body, headers)[0] == code


def test_a_gzip_body_may_have_several_members_and_nothing_else(server):
    headers = {"Content-Encoding": "gzip"}
    expected = rest(server.rest_address, PREDICT, VALID)
    members = [gzip.compress(VALID[:9]), gzip.compress(b""), gzip.compress(VALID[9:])]
    packed = b"".join(members)
    assert rest(server.rest_address, PREDICT, packed, headers) == expected
    for rest_of_body, message in (
        (b"{}", "the body is not gzip"),
        (b"\0" * 512, "the body is not gzip"),
        (b"\x1f", "the body ends before its gzip stream"),
        (packed[:-1], "the body ends before its gzip stream"),
    ):
        code, text = rest(server.rest_address, PREDICT, packed + rest_of_body, headers)
        assert (code, message in text) == (400, True), rest_of_body


def test_a_client_that_closes_its_sending_half_gets_its_answer(server):
    with connect(server.rest_address) as connection:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(VALID)}"
        connection.sendall(f"{head}\r\n\r\n".encode() + VALID)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while data := connection.recv(1 << 16):
            received += data
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close\r\n" in received
    assert b'{"outputs": [' in received


def test_a_connection_that_stays_open_says_for_how_long(server):
    connection = http.client.HTTPConnection(server.rest_address, timeout=60)
    connection.request("GET", "/health")
    assert connection.getresponse().getheader("Keep-Alive") == "timeout=60"
    connection.close()


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/pest:predict", VALID, 404, "choose from pets"),
        ("/v1/models/pest", None, 404, "choose from pets"),
        (PREDICT, b"", 400, "is not JSON"),
        (PREDICT, b'{"inputs": "\xff"}', 400, "is not JSON"),
        (PREDICT, b"1" * 3000, 400, "the body"),
        (PREDICT, b"[1]", 400, "the body"),
        (PREDICT, b"{}", 400, "expected either instances or inputs"),
        (PREDICT, b'{"instances": [], "inputs": []}', 400, "expected either instances or inputs"),
        (PREDICT, b'{"inputs": {"queries": ["a"], "titles": ["b"], "x": ["c"]}}', 400, "'x'"),
        (PREDICT, b'{"instances": [{"queries": "a", "titles": "b", "x": "c"}]}', 400, "not "),
        (PREDICT, b'{"instances": [{"queries": "a", "titles": {"b64": "?"}}]}', 400, "BASE64"),
        (PREDICT, b'{"inputs": ["a"], "inputs": ["b"]}', 400, "'inputs' is in one object more"),
        (PREDICT, b'{"instances": [{"queries": "a", "queries": "b", "titles": "c"}]}', 400,
         "'queries' is in one object more than once; give it once."),
        (PREDICT, b'{"inputs": {"queries": [{"b64": "YQ==", "b64": "Yg=="}], "titles": ["b"]}}',
         400, "'b64' is in one object more than once"),
        (PREDICT, None, 405, "takes POST only"),
        (PREDICT[:-7] + "classify", VALID, 400, "the signatures are for :predict"),
        ("/v1/models/pets/versions/1:predict", VALID, 404, "version 1 of pets is not served"),
        ("/v1/models/pets/labels/old:predict", VALID, 404, "version old of pets is not served"),
        (PREDICT, b'{"inputs": ["a"]}', 400, "inputs: "),
        (PREDICT, b'{"inputs": {"queries": "a"}}', 400, "inputs.queries: "),
        (PREDICT, b'{"inputs": {"queries": ["a", 5]}}', 400, "inputs.queries.1: "),
        (PREDICT, b'{"inputs": {}, "signature_name": 5}', 400, "signature_name: "),
        (PREDICT, body_of("scores", queries=["a"]), 400, "expected one of score"),
        (PREDICT, body_of("score", queries=QUERIES[:2], titles=TITLES), 400,
         "2 queries and 3 titles"),
        (PREDICT, body_of("encode_title", titles=["b" * 4000]), 413, "more than 4,000 bytes"),
    ],
)  # fmt: skip
def test_the_error_for_an_invalid_request_names_the_field(server, path, body, status, words):
    code, text = rest(server.rest_address, path, body)
    assert (code, list(json.loads(text))) == (status, ["error"])
    assert words in json.loads(text)["error"]
    assert len(text.splitlines()) == 1


def test_metrics_are_valid_for_prometheus_and_have_no_names_of_unknown_models(server):
    from prometheus_client.parser import text_string_to_metric_families

    def samples():
        code, text = rest(server.rest_address, "/metrics")
        assert (code, "pest" in text) == (200, False)
        families = text_string_to_metric_families(text)
        return {(sample.name, *sample.labels.values()): sample.value
                for family in families for sample in family.samples}  # fmt: skip

    before = samples()
    for path, body, code, status in (
        (PREDICT, VALID, 200, "OK"),
        (PREDICT, b"5", 400, "INVALID_ARGUMENT"),
        ("/v1/models/pest:predict", VALID, 404, "NOT_FOUND"),
    ):
        assert rest(server.rest_address, path, body)[0] == code
        key = ("dssm_request_seconds_count", "rest", status)
        assert samples()[key] - before.get(key, 0) == 1, key


def test_the_help_and_the_documentation_have_all_limits(checkout, capsys):
    from dataclasses import fields

    from dssm_tf.cli import main
    from dssm_tf.server.limits import Limits

    assert main(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    page = (checkout / "docs" / "server_limits.md").read_text("utf-8")
    for field in fields(Limits):
        flag = f"--{field.name.replace('_', '-')}"
        assert re.search(rf"{flag} .*?\[default: {field.default}\]", text), flag
        default = f"{field.default:,}" if isinstance(field.default, int) else f"{field.default:g}"
        (row,) = [line for line in page.splitlines() if f"| `{flag}` |" in line]
        assert f"| {default} |" in row, row
