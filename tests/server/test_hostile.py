"""Invalid, large, slow and too many requests are refused in time, and the server answers others."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import ExitStack

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dssm_tf.server.rpc import HEALTH
from serving import messages
from tests.server.asking import (
    OWN_CONNECTION,
    body_of,
    connect,
    predict,
    request_of,
    rest,
    wait_for,
)
from tests.serving.conftest import served

AT_ONCE = 2.0  # seconds, on a busy machine
PREDICT = "/v1/models/tiny:predict"


@pytest.fixture
def serve(ranker):
    """Returns a function that starts a server of the ranker with limits."""
    with ExitStack() as stack:
        yield lambda **limits: stack.enter_context(served(ranker, **limits))
        ranker.may_answer.set()  # otherwise stopping waits for blocked requests


def post(server, body: bytes) -> tuple[int, str]:
    return rest(server.rest_address, PREDICT, body)


BODY = body_of("encode_query", queries=["a"])
RAW = request_of("tiny", "encode_query", queries=["a"]).SerializeToString()


@pytest.fixture
def channel_to():
    """Returns a function that opens a channel with its own connection to a server."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(
            grpc.insecure_channel(server.grpc_address, OWN_CONNECTION)
        )


def counted(server, api: str, status: str) -> float:
    _, text = rest(server.rest_address, "/metrics")
    line = rf'^dssm_request_seconds_count{{api="{api}",status="{status}"}} (\S+)$'
    match = re.search(line, text, re.MULTILINE)
    return float(match[1]) if match else 0.0


# --------------------------------------------------------------------------------- one request


def test_a_shape_of_many_dimensions_is_refused_at_once(serve, channel_to):
    server = serve()
    request = request_of("tiny", "encode_query", queries=["a"])
    for _ in range(32_000):
        request.inputs["queries"].tensor_shape.dim.add(size=1 << 62)
    started = time.monotonic()
    status, details = predict(channel_to(server), request.SerializeToString())
    assert time.monotonic() - started < AT_ONCE
    assert (status, len(details) < 600) == ("INVALID_ARGUMENT", True)


def test_a_tensor_with_fewer_values_than_its_shape_is_not_padded(serve, channel_to, ranker):
    server = serve(texts=4096)
    request = request_of("tiny", "encode_query", queries=["x" * 65_000])
    request.inputs["queries"].tensor_shape.dim[0].size = 4096  # 266 MB
    status, details = predict(channel_to(server), request.SerializeToString())
    assert (status, "and n texts" in details) == ("INVALID_ARGUMENT", True)
    assert ranker.requests == []


def test_only_the_beginning_of_a_long_text_is_read(serve):
    code, text = post(serve(), body_of("encode_query", queries=["x" * 1_000_000]))
    # The number of letters, the number of words, and 1.
    assert (code, json.loads(text)) == (200, {"outputs": [[65536, 1, 1]]})


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (b"[" * 100_000, 400, "INVALID_ARGUMENT"),
        (b'{"inputs": {"queries": [' + b"1," * 200_000 + b"1]}}", 400, "INVALID_ARGUMENT"),
        (b'{"inputs": {' + b",".join(b'"%d": 1' % n for n in range(50_000)) + b"}}", 400,
         "INVALID_ARGUMENT"),
        (b" " * (5 << 20), 413, "RESOURCE_EXHAUSTED"),
    ],
    ids=["nested", "numbers", "names", "long"],
)  # fmt: skip
def test_an_invalid_body_is_a_short_error_and_is_counted(serve, body, code, status):
    server = serve()
    started = time.monotonic()
    answered, text = post(server, body)
    assert time.monotonic() - started < AT_ONCE
    assert (answered, len(text) < 600) == (code, True)
    assert counted(server, "rest", status) == 1


def test_a_request_with_another_host_header_is_refused(serve):
    server = serve()
    for path, body in ((PREDICT, BODY), ("/metrics", None), ("/v1/models/tiny", None)):
        assert rest(server.rest_address, path, body, {"Host": "evil.example"})[0] == 400
        for host in ("localhost", "127.0.0.1:8501"):
            assert rest(server.rest_address, path, body, {"Host": host})[0] == 200


# --------------------------------------------------------------------------- many at a time


def in_threads(count: int, ask) -> list:
    """Runs calls in parallel; the list of results grows as they return."""
    results: list = []
    for number in range(count):
        threading.Thread(target=lambda n=number: results.append(ask(n)), daemon=True).start()
    return results


def test_requests_above_the_limit_are_refused_at_once(serve, channel_to, ranker):
    server = serve(in_flight=4)
    ranker.may_answer.clear()
    channel = channel_to(server)

    def ask(number: int):
        if number % 2:
            return predict(channel, RAW)[0]
        return post(server, BODY)[0]

    results = in_threads(12, ask)
    wait_for(lambda: len(results) == 8)
    assert set(results) == {503, "RESOURCE_EXHAUSTED"}
    ranker.may_answer.set()
    wait_for(lambda: len(results) == 12)
    assert set(results[8:]) <= {200, "OK"}
    assert counted(server, "rest", "OK") + counted(server, "grpc", "OK") == 4


def test_health_checks_are_answered_while_all_workers_are_busy(serve, channel_to, ranker):
    server = serve(seconds=20.0)
    ranker.may_answer.clear()
    channel = channel_to(server)
    in_threads(30, lambda number: predict(channel, RAW)
               if number % 2 else post(server, BODY))  # fmt: skip
    time.sleep(0.5)
    started = time.monotonic()
    for path in ("/v1/models/tiny", "/health", "/metrics"):
        assert rest(server.rest_address, path)[0] == 200
    stub = health_pb2_grpc.HealthStub(channel_to(server))
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert time.monotonic() - started < AT_ONCE


def test_a_request_that_takes_too_long_is_refused_and_counted(serve, channel_to, ranker):
    server = serve(seconds=0.4)
    ranker.may_answer.clear()
    code, text = post(server, BODY)
    assert (code, "not answered within 0.4 s" in text) == (504, True)
    assert predict(channel_to(server), RAW)[0] == "DEADLINE_EXCEEDED"
    for api in ("rest", "grpc"):
        assert (counted(server, api, "DEADLINE_EXCEEDED"), counted(server, api, "OK")) == (1, 0)


def test_connections_over_the_limit_and_idle_connections_are_closed(serve, channel_to):
    server = serve(connections=5, seconds=1.0)
    with ExitStack() as stack:
        for address in (server.rest_address, server.grpc_address):
            idle = [connect(address) for _ in range(12)]
            [stack.callback(connection.close) for connection in idle]
            for connection in idle:
                connection.sendall(
                    b"PRI"
                )  # the first bytes of HTTP/2, and an incomplete HTTP/1 request
            wait_for(lambda idle=idle: sum(map(is_closed, idle)) == 7)
        wait_for(lambda: all(map(is_closed, idle)))
    assert post(server, BODY)[0] == 200
    assert predict(channel_to(server), RAW) == ("OK", "")


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            """Discards data that was received before."""
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def test_incomplete_bodies_are_refused_after_the_time_limit(serve):
    server = serve(message_bytes=1 << 20, in_flight=4, seconds=1.5)
    head = (
        f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 20}\r\n\r\n"
    ).encode()
    answers: list[bytes] = []

    def send(_: int) -> None:
        with connect(server.rest_address) as connection:
            connection.sendall(head + b" " * ((1 << 20) - 1))
            answers.append(connection.recv(1 << 16).split(b" ")[1])

    in_threads(8, send)
    wait_for(lambda: len(answers) == 8)
    # They do not count towards --in-flight.
    assert answers == [b"504"] * 8
    assert post(server, BODY)[0] == 200


@pytest.mark.parametrize("path", [messages.PREDICT, HEALTH])
def test_incomplete_calls_are_refused_after_the_time_limit(serve, channel_to, path):
    server = serve(message_bytes=1 << 20, in_flight=4, seconds=1.5)
    channel, ended = channel_to(server), threading.Event()

    def nothing():
        ended.wait(20)
        yield from ()

    call = channel.stream_unary(path)
    calls = [call.future(nothing(), timeout=20) for _ in range(8)]
    statuses = [call.exception(20).code().name for call in calls]
    ended.set()
    assert statuses == ["DEADLINE_EXCEEDED"] * 8
    assert predict(channel, RAW) == ("OK", "")


def test_a_response_that_is_not_read_is_dropped(serve, ranker):
    server = serve(texts=4096, seconds=1.0)
    body = body_of("encode_query", queries=["a b c"] * 4096)
    with ExitStack() as stack:
        readers = [stack.enter_context(connect(server.rest_address)) for _ in range(4)]
        for connection in readers:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            connection.sendall(
                f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
        wait_for(lambda: len(ranker.requests) >= 4)
        wait_for(lambda: not server._rest.server_state.connections)
    assert post(server, BODY)[0] == 200
