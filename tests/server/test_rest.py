"""The columnar REST API of TensorFlow Serving, and its errors."""

from __future__ import annotations

import http.client
import json
import re
import socket
from time import perf_counter

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf.export.signatures import INPUTS
from tests.server.asking import body_of, rest
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


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/pest:predict", VALID, 404, "choose from pets"),
        ("/v1/models/pest", None, 404, "choose from pets"),
        (PREDICT, b"", 400, "Invalid JSON"),
        (PREDICT, b'{"inputs": "\xff"}', 400, "Invalid JSON"),
        (PREDICT, b"1" * 3000, 400, "the body"),
        (PREDICT, b"[1]", 400, "the body"),
        (PREDICT, b"{}", 400, "inputs: Field required"),
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
    page = (checkout / "docs" / "serving.md").read_text("utf-8")
    for field in fields(Limits):
        flag = f"--{field.name.replace('_', '-')}"
        assert re.search(rf"{flag} .*?\[default: {field.default}\]", text), flag
        default = f"{field.default:,}" if isinstance(field.default, int) else f"{field.default:g}"
        (row,) = [line for line in page.splitlines() if f"| `{flag}` |" in line]
        assert f"| {default} |" in row, row
