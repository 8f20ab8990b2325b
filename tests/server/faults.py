"""Faulty clients: functions that send random invalid requests and count the responses.

`tests/server/test_faults.py` runs each for a few requests, `python -m tests.benchmarks.hostile` for
hours. A response must be valid or an error of one line; otherwise an `AssertionError` is raised.
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
from tests.damage import mangled
from tests.server.asking import SEPARATE_CONNECTION, body_of, connect, predict, request_of, rest

QUERY = "red fox"


class Target(NamedTuple):
    """The addresses of a server, and the name of one of its models."""

    grpc: str
    rest: str
    model: str

    def response_seconds(self) -> float:
        """Sends one query over gRPC and over REST; returns the seconds of the slower one."""
        started = perf_counter()
        with Client(self.grpc, self.model, timeout=60) as client:
            assert client.encode("query", [QUERY]).shape[0] == 1
        half = perf_counter()
        assert self.post(body_of("encode_query", queries=[QUERY])) == "OK"
        return max(half - started, perf_counter() - half)

    def post(self, body: bytes) -> str:
        """Sends a REST request; returns `OK` or the HTTP status of a well-formed error."""
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


def malformed_bodies(target: Target, count: int) -> Counter[str]:
    """Sends REST bodies of random bytes, and of random JSON with the field names of the API."""
    counts: Counter[str] = Counter()

    @settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(body=BODIES)
    def send(body: bytes) -> None:
        counts[target.post(body)] += 1

    send()
    return counts


def malformed_messages(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Sends gRPC requests that are truncated, partly repeated, or have flipped bits."""
    raw = request_of(target.model, "encode_query", queries=[QUERY, "owl"]).SerializeToString()
    counts, random_generator = Counter[str](), random.Random(seed)
    with grpc.insecure_channel(target.grpc, SEPARATE_CONNECTION) as channel:
        for _ in range(count):
            counts[target.call(channel, mangled(raw, random_generator))] += 1
    return counts


def invalid_utf8(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Sends texts of random bytes: valid in gRPC, since logs have such queries, but not in JSON."""
    random_generator, counts = random.Random(seed), Counter[str]()
    request = request_of(target.model, "encode_query", queries=["x"])
    with grpc.insecure_channel(target.grpc, SEPARATE_CONNECTION) as channel:
        for _ in range(count):
            text = random_generator.randbytes(random_generator.randrange(1, 40)) + b"\xff"
            request.inputs["queries"].string_val[0] = text
            counts[f"gRPC {target.call(channel, request.SerializeToString())}"] += 1
            body = b'{"inputs": {"queries": ["' + text.replace(b'"', b"") + b'"]}}'
            counts[f"JSON {target.post(body)}"] += 1
    assert counts["gRPC OK"] == counts["JSON 400"] == count, counts
    return counts


def long_heads(target: Target, count: int) -> Counter[str]:
    """Sends requests with a head of a megabyte; counts the HTTP status codes."""
    counts: Counter[str] = Counter()
    for _ in range(count):
        with connect(target.rest) as connection:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (1 << 20))
                counts[connection.recv(65536).split(b" ")[1].decode()] += 1
            except OSError:  # the server responded and closed before everything was sent
                counts["reset"] += 1
    assert set(counts) <= {"400", "reset"}, counts
    return counts


def reset_connections(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Resets connections: idle, in the head, in the body, and before the response."""
    body = body_of("encode_query", queries=[QUERY] * 8)
    head = f"POST /v1/models/{target.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    counts, random_generator = Counter[str](), random.Random(seed)
    for index in range(count):
        address = target.grpc if index % 4 == 3 else target.rest
        size = random_generator.choice(
            [0, 10, len(request) - len(body), len(request) - 5, len(request)]
        )
        with connect(address) as connection:
            connection.sendall(request[:size])
            # A linger time of zero resets the connection instead of closing it.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        counts["gRPC" if address == target.grpc else "REST"] += 1
    target.response_seconds()
    return counts
