"""Raw requests over both protocols."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import grpc

from serving import messages, predict_pb2

OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


def rest(
    address: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Sends a GET request, or a POST if there is a body; returns the HTTP code and the body."""
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


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
    """Calls Predict; returns the status and details of gRPC."""
    try:
        answer = channel.unary_unary(messages.PREDICT)(raw, timeout=60)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    assert predict_pb2.PredictResponse.FromString(answer).outputs
    return "OK", ""


def connect(address: str) -> socket.socket:
    """Opens a TCP connection."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.01)
