"""REST by columns, as TensorFlow Serving's documentation has it, and what is refused."""

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
def test_each_signature_answers_what_the_saved_model_does(server, signatures, name):
    given = {one: {"queries": QUERIES, "titles": TITLES}[one] for one in INPUTS[name]}
    code, told = rest(server.rest_address, PREDICT, body_of(name, **given))
    assert code == 200, told
    tensors = {one: tf.constant(texts) for one, texts in given.items()}
    (expected,) = signatures[name](**tensors).values()
    assert np.allclose(json.loads(told)["outputs"], expected.numpy(), atol=1e-6)


def test_a_kept_connection_is_answered_at_once(server):
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
    # Where the server waits for the acknowledgement of a first packet, it is 40 ms each time.
    assert min(seconds[5:]) < 0.035


def test_no_text_is_no_vector(server):
    code, told = rest(server.rest_address, PREDICT, body_of("encode_title", titles=[]))
    assert (code, json.loads(told)) == (200, {"outputs": []})


def test_the_status_is_as_documented(server):
    code, told = rest(server.rest_address, "/v1/models/pets")
    version = {"version": "2", "state": "AVAILABLE"}
    version["status"] = {"error_code": "OK", "error_message": ""}
    assert (code, json.loads(told)) == (200, {"model_version_status": [version]})


FINE = body_of("score", queries=QUERIES, titles=TITLES)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/pest:predict", FINE, 404, "choose from pets"),
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
def test_a_request_that_cannot_be_answered_names_the_field(server, path, body, status, words):
    code, told = rest(server.rest_address, path, body)
    assert (code, list(json.loads(told))) == (status, ["error"])
    assert words in json.loads(told)["error"]
    assert len(told.splitlines()) == 1


def test_metrics_are_what_prometheus_reads_and_count_no_stranger_s_names(server):
    from prometheus_client.parser import text_string_to_metric_families

    def samples():
        code, text = rest(server.rest_address, "/metrics")
        assert (code, "pest" in text) == (200, False)
        families = text_string_to_metric_families(text)
        return {(one.name, *one.labels.values()): one.value
                for family in families for one in family.samples}  # fmt: skip

    before = samples()
    for path, body, code, status in (
        (PREDICT, FINE, 200, "OK"),
        (PREDICT, b"5", 400, "INVALID_ARGUMENT"),
        ("/v1/models/pest:predict", FINE, 404, "NOT_FOUND"),
    ):
        assert rest(server.rest_address, path, body)[0] == code
        key = ("dssm_request_seconds_count", "rest", status)
        assert samples()[key] - before.get(key, 0) == 1, key


def test_limits_are_named_in_the_help_and_the_documentation(checkout, capsys):
    from dataclasses import fields

    from dssm_tf.cli import main
    from dssm_tf.server.limits import Limits

    assert main(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    page = (checkout / "docs" / "serving.md").read_text("utf-8")
    for one in fields(Limits):
        flag = f"--{one.name.replace('_', '-')}"
        assert re.search(rf"{flag} .*?\[default: {one.default}\]", text), flag
        shown = f"{one.default:,}" if isinstance(one.default, int) else f"{one.default:g}"
        (row,) = [line for line in page.splitlines() if f"| `{flag}` |" in line]
        assert f"| {shown} |" in row, row
