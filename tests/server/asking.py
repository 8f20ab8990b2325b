"""Requests over both protocols without the package's client."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import grpc

from serving import messages, predict_pb2

SEPARATE_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


def rest(
    address: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Sends a POST if there is a body, else a GET; returns the HTTP status and the text."""
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read().decode()


def body_of(signature: str, **inputs: Sequence[str]) -> bytes:
    """The body of a REST request."""
    return json.dumps({"signature_name": signature, "inputs": inputs}).encode()


def request_of(model: str, signature: str, **inputs: Sequence[str]) -> predict_pb2.PredictRequest:
    """A gRPC request."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    for name, texts in inputs.items():
        request.inputs[name].CopyFrom(messages.encode_texts(texts))
    return request


def predict(channel: grpc.Channel, raw: bytes) -> tuple[str, str]:
    """Sends a gRPC request; returns the status and details. A response must have outputs."""
    try:
        response = channel.unary_unary(messages.PREDICT)(raw, timeout=60)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    assert predict_pb2.PredictResponse.FromString(response).outputs
    return "OK", ""


def connect(address: str) -> socket.socket:
    """Opens a TCP connection."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until the condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition is not true after {seconds:g} s"
        time.sleep(0.01)
