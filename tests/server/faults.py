"""Random invalid requests to a server, and checks of its responses.

`tests/server/test_faults.py` sends a few of each, `python -m tests.benchmarks.hostile` for hours.
A response that is neither correct nor a one-line error is an `AssertionError`.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections import Counter
from time import perf_counter
from typing import NamedTuple

import grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serving.client import Client
from tests.damage import damage
from tests.server.asking import OWN_CONNECTION, body_of, connect, predict, request_of, rest

QUERY = "red fox"


class Target(NamedTuple):
    """A server under test: its addresses, and the name of one of its models."""

    grpc: str
    rest: str
    model: str

    def answers(self) -> float:
        """Encodes a query over gRPC and REST; returns the seconds of the slower request."""
        started = perf_counter()
        with Client(self.grpc, self.model, timeout=60) as client:
            assert client.encode("query", [QUERY]).shape[0] == 1
        half = perf_counter()
        assert self.post(body_of("encode_query", queries=[QUERY])) == "OK"
        return max(half - started, perf_counter() - half)

    def post(self, body: bytes) -> str:
        """Sends a REST request; returns `OK` or the HTTP code of an error with a reason."""
        code, text = rest(self.rest, f"/v1/models/{self.model}:predict", body)
        if code == 200:
            assert list(json.loads(text)) == ["outputs"], text
            return "OK"
        assert code in (400, 404, 413, 503, 504), (code, text)
        _check_reason(json.loads(text)["error"])
        return str(code)

    def call(self, channel: grpc.Channel, raw: bytes) -> str:
        """Sends a gRPC request; returns the status."""
        status, reason = predict(channel, raw)
        if status != "OK":
            assert status in ("INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"), reason
            _check_reason(reason)
        return status


def _check_reason(reason: str) -> None:
    assert 10 < len(reason) <= 600, reason
    assert "\n" not in reason, reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["queries", "titles", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
BODIES = st.binary(max_size=80) | st.fixed_dictionaries(
    {},
    optional={
        "signature_name": st.sampled_from(["score", "encode_title", "", "x", 5]),
        "inputs": JSON,
    },
).map(lambda body: json.dumps(body).encode())


def send_malformed_bodies(target: Target, count: int) -> Counter[str]:
    """Sends REST requests with random bytes, and with random JSON under the expected keys."""
    results: Counter[str] = Counter()

    @settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(body=BODIES)
    def send(body: bytes) -> None:
        results[target.post(body)] += 1

    send()
    return results


def send_malformed_messages(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Sends gRPC requests that are truncated, partly repeated, or have changed bytes."""
    raw = request_of(target.model, "encode_query", queries=[QUERY, "owl"]).SerializeToString()
    results, chance = Counter[str](), random.Random(seed)
    with grpc.insecure_channel(target.grpc, OWN_CONNECTION) as channel:
        for _ in range(count):
            results[target.call(channel, damage(raw, chance))] += 1
    return results


def send_invalid_utf8(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Sends texts of random bytes: valid in gRPC, as logs have such queries; invalid in JSON."""
    chance, results = random.Random(seed), Counter[str]()
    request = request_of(target.model, "encode_query", queries=["x"])
    with grpc.insecure_channel(target.grpc, OWN_CONNECTION) as channel:
        for _ in range(count):
            text = chance.randbytes(chance.randrange(1, 40)) + b"\xff"
            request.inputs["queries"].string_val[0] = text
            results[f"gRPC {target.call(channel, request.SerializeToString())}"] += 1
            body = b'{"inputs": {"queries": ["' + text.replace(b'"', b"") + b'"]}}'
            results[f"JSON {target.post(body)}"] += 1
    assert results["gRPC OK"] == results["JSON 400"] == count, results
    return results


def send_long_heads(target: Target, count: int) -> Counter[str]:
    """Sends requests with a head of a megabyte; returns the HTTP codes."""
    results: Counter[str] = Counter()
    for _ in range(count):
        with connect(target.rest) as connection:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (1 << 20))
                results[connection.recv(65536).split(b" ")[1].decode()] += 1
            except OSError:  # the server closed the connection before all was sent
                results["reset"] += 1
    assert set(results) <= {"400", "reset"}, results
    return results


def drop_connections(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Resets connections when idle, in the head, in the body, or before the response."""
    body = body_of("encode_query", queries=[QUERY] * 8)
    head = f"POST /v1/models/{target.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    results, chance = Counter[str](), random.Random(seed)
    for number in range(count):
        address = target.grpc if number % 4 == 3 else target.rest
        length = chance.choice([0, 10, len(request) - len(body), len(request) - 5, len(request)])
        with connect(address) as connection:
            connection.sendall(request[:length])
            # With zero linger time the connection is reset, not closed.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        results["gRPC" if address == target.grpc else "REST"] += 1
    target.answers()
    return results
