"""What clients do wrong at random, done on purpose to a server, and what came of it.

`tests/server/test_faults.py` does each a few times, `python -m tests.benchmarks.hostile` for hours.
An answer that is neither a good one nor a refusal with one line of reason is an `AssertionError`.
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
from tests.damage import corrupted
from tests.server.asking import OWN_CONNECTION, body_of, connect, predict, request_of, rest

QUERY = "red fox"


class Target(NamedTuple):
    """A server: its addresses, and the name of one of its models."""

    grpc: str
    rest: str
    model: str

    def answers(self) -> float:
        """Asks one query over gRPC and REST; the seconds of the slower one."""
        started = perf_counter()
        with Client(self.grpc, self.model, timeout=60) as client:
            assert client.encode("query", [QUERY]).shape[0] == 1
        half = perf_counter()
        assert self.post(body_of("encode_query", queries=[QUERY])) == "OK"
        return max(half - started, perf_counter() - half)

    def post(self, body: bytes) -> str:
        """Asks by REST; returns `OK` or the HTTP code of a refusal, which must name its cause."""
        code, told = rest(self.rest, f"/v1/models/{self.model}:predict", body)
        if code == 200:
            assert list(json.loads(told)) == ["outputs"], told
            return "OK"
        assert code in (400, 404, 413, 503, 504), (code, told)
        _check_reason(json.loads(told)["error"])
        return str(code)

    def call(self, channel: grpc.Channel, raw: bytes) -> str:
        """Asks by gRPC; returns the status."""
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
    """REST bodies of random bytes, and of random JSON under the names that count."""
    found: Counter[str] = Counter()

    @settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(body=BODIES)
    def ask(body: bytes) -> None:
        found[target.post(body)] += 1

    ask()
    return found


def malformed_messages(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """gRPC requests cut, doubled in part, and with flipped bits and strange ones."""
    raw = request_of(target.model, "encode_query", queries=[QUERY, "owl"]).SerializeToString()
    found, chance = Counter[str](), random.Random(seed)
    with grpc.insecure_channel(target.grpc, OWN_CONNECTION) as channel:
        for _ in range(count):
            found[target.call(channel, corrupted(raw, chance))] += 1
    return found


def invalid_utf8(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Texts of random bytes: answered by gRPC, since a log holds such queries; they are no JSON."""
    chance, found = random.Random(seed), Counter[str]()
    request = request_of(target.model, "encode_query", queries=["x"])
    with grpc.insecure_channel(target.grpc, OWN_CONNECTION) as channel:
        for _ in range(count):
            text = chance.randbytes(chance.randrange(1, 40)) + b"\xff"
            request.inputs["queries"].string_val[0] = text
            found[f"gRPC {target.call(channel, request.SerializeToString())}"] += 1
            body = b'{"inputs": {"queries": ["' + text.replace(b'"', b"") + b'"]}}'
            found[f"JSON {target.post(body)}"] += 1
    assert found["gRPC OK"] == found["JSON 400"] == count, found
    return found


def long_heads(target: Target, count: int) -> Counter[str]:
    """Requests whose head is a megabyte; the HTTP codes."""
    found: Counter[str] = Counter()
    for _ in range(count):
        with connect(target.rest) as connection:
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (1 << 20))
                found[connection.recv(65536).split(b" ")[1].decode()] += 1
            except OSError:  # it answered and closed before all was sent
                found["reset"] += 1
    assert set(found) <= {"400", "reset"}, found
    return found


def dropped(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Connections that are reset: idle, in the head, in the body, before the answer."""
    body = body_of("encode_query", queries=[QUERY] * 8)
    head = f"POST /v1/models/{target.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    found, chance = Counter[str](), random.Random(seed)
    for number in range(count):
        address = target.grpc if number % 4 == 3 else target.rest
        cut = chance.choice([0, 10, len(request) - len(body), len(request) - 5, len(request)])
        with connect(address) as connection:
            connection.sendall(request[:cut])
            # Zero seconds to linger: the other side gets a reset, not an end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        found["gRPC" if address == target.grpc else "REST"] += 1
    target.answers()
    return found
