"""Too many requests: some are refused or delayed, and answers stay fast."""

from __future__ import annotations

import asyncio
import json
import select
import threading
import time
from contextlib import ExitStack
from unittest.mock import Mock

import pytest

from dssm_tf.server.admission import WAIT_SECONDS, Admission
from dssm_tf.server.http_protocol import Connections
from dssm_tf.server.limits import Limits, Refusal
from dssm_tf.server.predict import compute
from dssm_tf.server.scheduler import Job, Scheduler
from tests.server.asking import body_of, connect, rest, wait_for
from tests.serving.conftest import served

PREDICT = "/v1/models/tiny:predict"
BODY = body_of("encode_query", queries=["a"])


def test_a_request_is_refused_if_those_before_it_need_too_long():
    now = 100.0
    admission = Admission(Limits(in_flight=50), 1, clock=lambda: now)

    def answer(seconds: float) -> None:
        nonlocal now
        entered = admission.enter(1)
        now += seconds
        admission.leave(entered, 1, seconds, is_long=False)

    for _ in range(200):
        answer(0.01)
    entered = [admission.enter(1) for _ in range(11)]
    # 11 requests of 0.01 s need longer than WAIT_SECONDS.
    assert admission.running * 0.01 > WAIT_SECONDS
    with pytest.raises(Refusal, match="the server is busy"):
        admission.enter(1)
    now += 0.01
    admission.leave(entered[0], 1, 0.01, is_long=False)
    admission.enter(1)
    for start in (*entered[1:], now):
        now += 0.01
        admission.leave(start, 1, 0.01, is_long=False)
    for _ in range(200):
        answer(1.0)
    # Four requests per worker are always accepted, however slow requests are.
    for _ in range(4):
        admission.enter(1)
    with pytest.raises(Refusal):
        admission.enter(1)


def test_requests_over_the_limit_in_flight_are_refused():
    admission = Admission(Limits(in_flight=2), 1)
    for _ in range(2):
        admission.enter(1)
    with pytest.raises(Refusal, match="the server is busy"):
        admission.enter(1)
    admission.become_long()
    admission.enter(1)


def test_requests_for_an_unknown_model_use_up_no_slots(ranker):
    with served(ranker, in_flight=2) as server:
        for _ in range(5):
            assert rest(server.rest_address, "/v1/models/other:predict", BODY)[0] == 404
        assert server._service.admission.running == 0
        assert rest(server.rest_address, PREDICT, BODY)[0] == 200


def test_refusals_are_delayed_when_there_are_many():
    now = 100.0
    admission = Admission(Limits(), 1, clock=lambda: now)
    delays = [admission.refusal_delay() for _ in range(1000)]
    assert delays[:30] == [0.0] * 30
    # Then 50 per second, or a little earlier, and at most five seconds.
    assert (81 - 32) / 50 / 2 <= delays[80] <= (81 - 32) / 50
    assert 4.9 < max(delays) <= 5.0
    assert min(delays[500:]) >= 2.5


def test_at_most_one_refusal_per_connection_is_delayed():
    async def run() -> None:
        admission = Admission(Limits(connections=3), 1)
        for _ in range(300):
            admission.refusal_delay()
        waiting = [asyncio.create_task(admission.delay_refusal()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.wait_for(admission.delay_refusal(), 0.5)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert admission._delayed == 0

    asyncio.run(run())


def test_quick_requests_are_computed_in_turn_and_grpc_calls_are_received_in_between():
    order = []

    def blocks(name: str):
        order.append(name)
        return name
        yield  # makes this a generator

    async def run() -> list[str]:
        scheduler = Scheduler(1)

        async def receive_calls() -> None:
            for number in range(3):
                scheduler.calls += 1
                order.append(f"call {number}")
                await asyncio.sleep(0)

        scheduler.calls += 1
        calls = asyncio.create_task(receive_calls())
        jobs = [scheduler.run_here(Job(blocks(name), lambda: None)) for name in "ab"]
        results = await asyncio.gather(*jobs)
        await calls
        scheduler.stop()
        return results

    assert asyncio.run(run()) == ["a", "b"]
    assert order == ["call 0", "call 1", "call 2", "a", "b"]


def test_a_long_request_does_not_delay_short_ones():
    scheduler, finished, long = Scheduler(1), [], threading.Event()

    def blocks(name: str, count: int):
        for _ in range(count - 1):
            time.sleep(0.01)
            yield
        finished.append(name)

    jobs = [Job(blocks("long", 50), long.set)]
    scheduler.submit(jobs[0])
    assert long.wait(10)
    jobs += [Job(blocks(f"short {i}", 1), lambda: None) for i in range(3)]
    for job in jobs[1:]:
        scheduler.submit(job)
    for job in jobs[1:]:
        job.future.result(10)
    assert finished == ["short 0", "short 1", "short 2"]
    # A cancelled request ends before its next block.
    jobs[0].future.cancel()
    wait_for(lambda: jobs[0].blocks.gi_frame is None)
    assert jobs[0].steps < 50
    scheduler.stop()


def test_large_requests_are_computed_in_blocks_with_the_same_result(ranker):
    texts = [f"{'word ' * (i % 9)}{i}".encode() for i in range(1000)]
    model = served(ranker).models[0]
    work = compute(model, "encode_query", {"queries": texts}, Limits())
    steps = 0
    while True:
        try:
            next(work)
            steps += 1
        except StopIteration as end:
            result = end.value
            break
    assert steps >= 3
    assert max(ranker.requests) <= 256
    assert result.tolist() == [[len(text), len(text.split()), 1] for text in texts]
    with pytest.raises(Refusal, match=r"inputs: 1,000 words; at most 999 are allowed"):
        next(compute(model, "encode_query", {"queries": [b"a"] * 1000}, Limits(words=999)))


def test_a_refusal_keeps_the_connection_and_says_when_to_retry(ranker):
    with served(ranker, in_flight=1) as server, ExitStack() as stack:
        ranker.may_answer.clear()
        stack.callback(ranker.may_answer.set)
        thread = threading.Thread(target=rest, args=(server.rest_address, PREDICT, BODY))
        thread.start()
        wait_for(lambda: server._service.admission.running)
        connection = stack.enter_context(connect(server.rest_address))
        request = (
            f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
        ).encode() + BODY
        for _ in range(2):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b"}"):  # the end of the body
                answer += connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\n" in answer
            assert b"connection: close" not in answer
        assert (
            'dssm_refusals_total{api="rest",reason="busy"} 2.0'
            in (rest(server.rest_address, "/metrics")[1])
        )
        ranker.may_answer.set()
        thread.join(60)


def test_slow_bodies_and_idle_connections_do_not_block_other_requests(ranker):
    limits = {"connections": 20, "in_flight": 2, "message_bytes": 1 << 20, "buffer_bytes": 4 << 20}
    with served(ranker, **limits) as server, ExitStack() as stack:
        slow = [stack.enter_context(connect(server.rest_address)) for _ in range(10)]
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 20}\r\n\r\n"
        for connection in slow:
            connection.sendall(head.encode() + b" " * ((1 << 20) - 1))
        started = time.monotonic()
        for _ in range(40):
            stack.enter_context(connect(server.rest_address))
        assert rest(server.rest_address, PREDICT, BODY)[0] == 200
        assert rest(server.rest_address, "/health")[0] == 200
        assert time.monotonic() - started < 5
        assert server._service.bodies.total <= limits["buffer_bytes"]


def test_health_is_answered_while_all_connections_wait_for_a_refusal(ranker):
    with served(ranker, in_flight=1, connections=60) as server, ExitStack() as stack:
        ranker.may_answer.clear()
        stack.callback(ranker.may_answer.set)
        request = (
            f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
        ).encode() + BODY
        for _ in range(300):  # so that refusals are delayed
            server._service.admission.refusal_delay()
        for _ in range(60):
            stack.enter_context(connect(server.rest_address)).sendall(request)
        wait_for(lambda: server._service.admission._delayed >= 55)
        time.sleep(1)  # new connections are closed last
        for path in ("/health", "/metrics", "/health"):
            started = time.monotonic()
            assert rest(server.rest_address, path)[0] == 200
            assert time.monotonic() - started < 2
        # Each check has closed a connection that waited.
        assert len(server._rest.server_state.connections) <= 60


def test_a_connection_that_waits_is_closed_before_a_new_one():
    class Connection:
        def __init__(self) -> None:
            self.transport, self.loop = Mock(), Mock()
            self.transport.is_closing.return_value = False

        def is_aborted(self) -> bool:
            return self.transport.abort.called

    registry = Connections(Limits(connections=2))
    slow, silent, new = (Connection() for _ in range(3))
    registry.add(slow, 1)
    registry.begin_body(slow)
    registry._receiving[slow] -= 2  # two seconds ago
    registry.add(silent, 2)
    registry.add(new, 3)
    assert [c.is_aborted() for c in (slow, silent, new)] == [True, False, False]
    registry.add(Connection(), 3)  # all are new: the oldest idle one is closed
    assert [c.is_aborted() for c in (silent, new)] == [True, False]


def test_the_numbers_of_an_answer_are_counted_before_they_are_computed(ranker):
    model, numbers = served(ranker).models[0], []
    texts = [b"a"] * 1000

    def reserve(count: int) -> None:
        numbers.append((count, len(ranker.requests)))

    work = compute(model, "encode_query", {"queries": texts}, Limits(), reserve)
    for _ in work:
        pass
    # Three numbers per text; one block was computed to find out.
    assert numbers == [(3000, 1)]


def test_an_error_does_not_keep_the_parsed_request_in_memory():
    def fails():
        parsed = ["large"]
        raise ValueError(f"{len(parsed)} texts")
        yield  # makes this a generator

    scheduler = Scheduler(1)
    job = Job(fails(), lambda: None)
    scheduler.submit(job)
    error = job.future.exception(10)
    assert str(error) == "1 texts"
    assert error.__traceback__ is None
    scheduler.stop()


def test_a_refused_body_is_closed_without_delay(ranker):
    limits = {"message_bytes": 1 << 20, "buffer_bytes": 2 << 20}
    with served(ranker, **limits) as server, ExitStack() as stack:
        for _ in range(300):  # so that refusals are delayed
            server._service.admission.refusal_delay()
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 20}\r\n\r\n"
        connections = [stack.enter_context(connect(server.rest_address)) for _ in range(3)]
        started = time.monotonic()
        for connection in connections:
            connection.sendall(head.encode() + b" " * ((1 << 20) - 1))
        refused = select.select(connections, [], [], 2)[0]
        assert len(refused) == 1
        answer = refused[0].recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"connection: close" in answer
        assert time.monotonic() - started < 2


def test_a_client_that_leaves_is_no_error_of_the_server(ranker, caplog):
    with served(ranker) as server:
        ranker.may_answer.clear()
        for _ in range(3):
            with connect(server.rest_address) as connection:
                head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
                connection.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        wait_for(lambda: server._service.admission.running)
        ranker.may_answer.set()
        assert json.loads(rest(server.rest_address, PREDICT, BODY)[1]) == {"outputs": [[1, 1, 1]]}
        assert "INTERNAL" not in rest(server.rest_address, "/metrics")[1]
    assert caplog.messages == []
