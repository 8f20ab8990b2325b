"""What clients do wrong, done on purpose to a server of this machine, and what came of it.

`tests/server/test_faults.py` does each a few times, `python -m tests.benchmarks.faults` thousands.
An answer that is neither a good one nor a refusal with one line of reason is an `AssertionError`.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from time import perf_counter
from typing import Any, NamedTuple

import grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving import messages, predict_pb2
from serving.client import Client, RestClient
from tests.damage import mangled

QUERY = "red fox"
REFUSED = {
    "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED",
}  # fmt: skip


class Target(NamedTuple):
    """A server.

    Args:
        grpc: its address.
        rest: likewise.
        model: the name of one of its models.
    """

    grpc: str
    rest: str
    model: str

    def answers(self) -> float:
        """Asks one query over gRPC and REST; the seconds of the slower one."""
        seconds = []
        for client_class, host in ((Client, self.grpc), (RestClient, self.rest)):
            with client_class(host, self.model, timeout=60) as client:
                started = perf_counter()
                assert client.encode_queries([QUERY]).shape[0] == 1
                seconds.append(perf_counter() - started)
        return max(seconds)

    def connect(self, address: str) -> socket.socket:
        """A bare connection to an address of this server."""
        host, _, port = address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def head(self, length: int) -> bytes:
        """The head of a request with a body of so many bytes."""
        return (
            f"POST /v1/models/{self.model}:predict HTTP/1.1\r\nHost: x\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode()


def body_of(signature: str, texts: list[Any]) -> bytes:
    """A REST request of one input."""
    return json.dumps({"signature_name": signature, "inputs": texts}).encode()


def post(target: Target, body: bytes, connection: http.client.HTTPConnection | None = None) -> str:
    """Asks by REST; returns `OK` or the HTTP code of a refusal, which must name its cause."""
    with ExitStack() as stack:
        if connection is None:
            connection = http.client.HTTPConnection(target.rest, timeout=60)
            stack.callback(connection.close)
        connection.request("POST", f"/v1/models/{target.model}:predict", body)
        answer = connection.getresponse()
        told = json.loads(answer.read())
    if answer.status == 200:
        assert set(told) in ({"predictions"}, {"outputs"}), told
        return "OK"
    assert answer.status in (400, 404, 413), (answer.status, told)
    assert list(told) == ["error"], told
    _check_reason(told["error"])
    return str(answer.status)


def call(predict: Callable[..., bytes], raw: bytes) -> str:
    """Asks by gRPC; returns the status."""
    try:
        predict_pb2.PredictResponse.FromString(predict(raw, timeout=60))
    except grpc.RpcError as error:
        status, reason = error.code().name, error.details()
    else:
        return "OK"
    assert status in REFUSED, (status, reason)
    _check_reason(reason)
    return status


def _check_reason(reason: str) -> None:
    assert len(reason) > 10, reason
    assert "\n" not in reason, reason


def raw_predict(channel: grpc.Channel) -> Callable[..., bytes]:
    """`Predict` of bytes that may be no request."""
    return channel.unary_unary(messages.PREDICT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["b64", "queries", "titles", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
BODIES = st.binary(max_size=80) | st.fixed_dictionaries(
    {},
    optional={
        "signature_name": st.sampled_from(["score", "encode_title", "", "x", 5]),
        "instances": JSON,
        "inputs": JSON,
    },
).map(lambda body: json.dumps(body).encode())


def malformed_bodies(target: Target, count: int) -> Counter[str]:
    """REST bodies of random bytes, and of random JSON under the names that count."""
    found: Counter[str] = Counter()
    with closing(http.client.HTTPConnection(target.rest, timeout=60)) as connection:

        @settings(
            max_examples=count, database=None, deadline=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(body=BODIES)
        def ask(body: bytes) -> None:
            found[post(target, body, connection)] += 1

        ask()
    return found


def malformed_messages(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """gRPC requests cut, lengthened, and with flipped bits."""
    whole = predict_pb2.PredictRequest()
    whole.model_spec.name, whole.model_spec.signature_name = target.model, "encode_query"
    whole.inputs["queries"].CopyFrom(messages.encode_tensor([QUERY, "owl"]))
    raw, found = whole.SerializeToString(), Counter[str]()
    with grpc.insecure_channel(target.grpc) as channel:
        predict, chance = raw_predict(channel), random.Random(seed)
        while found.total() < count:
            for damaged in mangled(raw, chance):
                found[call(predict, damaged)] += 1
    return found


def invalid_utf8(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Texts of random bytes: answered, since a log holds such queries, by gRPC and in base64."""
    from base64 import b64encode

    chance, found = random.Random(seed), Counter[str]()
    with grpc.insecure_channel(target.grpc) as channel:
        predict = raw_predict(channel)
        for _ in range(count):
            text = chance.randbytes(chance.randrange(1, 40)) + b"\xff"
            request = predict_pb2.PredictRequest()
            request.model_spec.name = target.model
            request.model_spec.signature_name = "encode_query"
            request.inputs["queries"].CopyFrom(messages.encode_tensor(["x"]))
            request.inputs["queries"].string_val[0] = text
            found[f"gRPC {call(predict, request.SerializeToString())}"] += 1
            encoded = {"b64": b64encode(text).decode()}
            found[f"base64 {post(target, body_of('encode_query', [encoded]))}"] += 1
            # As JSON it is none.
            body = b'{"inputs": ["' + text.replace(b'"', b"") + b'"]}'
            found[f"JSON {post(target, body)}"] += 1
    assert found["gRPC OK"] == found["base64 OK"] == found["JSON 400"] == count, found
    return found


def oversized(target: Target, count: int, body: int, text: int, batch: int) -> Counter[str]:
    """Bodies, texts and batches one above the limits, which must be named."""
    found: Counter[str] = Counter()
    options = [("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 1 << 24)]
    with grpc.insecure_channel(target.grpc, options) as channel:
        predict = raw_predict(channel)
        for _ in range(count):
            for name, texts in (("text", ["x" * (text + 1)]), ("batch", ["x"] * (batch + 1))):
                found[f"{name} {post(target, body_of('encode_query', texts))}"] += 1
                request = predict_pb2.PredictRequest()
                request.model_spec.name = target.model
                request.model_spec.signature_name = "encode_query"
                request.inputs["queries"].CopyFrom(messages.encode_tensor(texts))
                found[f"{name} {call(predict, request.SerializeToString())}"] += 1
            found[f"body {post(target, b' ' * (body + 1))}"] += 1
            found[f"body {call(predict, b' ' * (body + 1))}"] += 1
            found[f"head {long_head(target)}"] += 1
    refused = {f"{name} {how}" for name in ("text", "batch") for how in (400, "INVALID_ARGUMENT")}
    assert set(found) == refused | {"body 413", "body RESOURCE_EXHAUSTED", "head 400"}, found
    return found


def long_head(target: Target) -> int:
    """A request whose head is a megabyte; the HTTP code."""
    with target.connect(target.rest) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (1 << 20))
        except OSError:
            """It answered and closed before all was sent."""
        try:
            return int(connection.recv(65536).split(b" ")[1])
        except ConnectionResetError:  # which took the answer with it
            return 400


def dropped(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Connections that are reset: idle, in the head, in the body, before the answer."""
    body = body_of("encode_query", [QUERY] * 8)
    request = target.head(len(body)) + body
    found, chance = Counter[str](), random.Random(seed)
    for number in range(count):
        address = target.grpc if number % 4 == 3 else target.rest
        cut = chance.choice([0, 10, len(request) - len(body), len(request) - 5, len(request)])
        with target.connect(address) as connection:
            connection.sendall(request[:cut])
            # Zero seconds to linger: the other side gets a reset, not an end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        found["gRPC" if address == target.grpc else "REST"] += 1
    target.answers()
    return found


def slow_senders(target: Target, clients: int, timeout: float) -> float:
    """Clients that send a byte now and then, and are given up with 504 after `timeout` seconds.

    Returns:
        The most seconds that another client's query took meanwhile.
    """
    ended, statuses = threading.Event(), []

    def send() -> None:
        with target.connect(target.rest) as connection:
            connection.sendall(target.head(1 << 20))
            while not ended.wait(min(0.1, timeout / 4)):
                try:
                    connection.sendall(b" ")
                except OSError:
                    break
                connection.settimeout(0.001)
                try:
                    statuses.append(connection.recv(65536).split(b" ")[1])
                    break
                except TimeoutError:
                    connection.settimeout(60)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    waiting, started, slowest = threading.Event(), perf_counter(), 0.0
    while len(statuses) < clients and perf_counter() - started < timeout + 60:
        slowest = max(slowest, target.answers())
        waiting.wait(0.05)
    ended.set()
    for thread in threads:
        thread.join(60)
    assert Counter(statuses) == {b"504": clients}, Counter(statuses)
    return slowest


def slow_readers(target: Target, clients: int, texts: int) -> float:
    """Clients that ask for long answers and read none of them; see `slow_senders`."""
    body = body_of("encode_query", [QUERY] * texts)
    with ExitStack() as stack:
        for _ in range(clients):
            connection = stack.enter_context(target.connect(target.rest))
            connection.sendall(target.head(len(body)) + body)
        return max(target.answers() for _ in range(20))
