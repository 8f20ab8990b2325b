"""Too many requests: some are refused or delayed, and answers stay fast."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import ExitStack
from types import MappingProxyType

import pytest

from dssm_tf.server.admission import WAIT_SECONDS, Admission
from dssm_tf.server.bodies import Bodies
from dssm_tf.server.limits import Limits, Refusal
from dssm_tf.server.predict import compute
from dssm_tf.server.scheduler import Job, Scheduler
from tests.server.asking import body_of, connect, rest, wait_for
from tests.serving.conftest import served

PREDICT = "/v1/models/tiny:predict"
BODY = body_of("encode_query", queries=["a"])


def test_the_newest_waiting_request_runs_next_and_old_ones_are_refused():
    async def run() -> list[str]:
        # One worker has four slots.
        admission, order = Admission(Limits(in_flight=6), 1), []

        async def request(name: str) -> None:
            try:
                await admission.enter(1)
                order.append(name)
            except Refusal as refusal:
                order.append(f"{name} {refusal.http_status}")

        for _ in range(4):
            await admission.enter(1)
        tasks = []
        for name in ("first", "second", "third"):
            tasks.append(asyncio.create_task(request(name)))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        admission.leave(1, 0.001, is_long=False)
        started = time.monotonic()
        await asyncio.gather(*tasks)
        assert time.monotonic() - started > 0.8 * WAIT_SECONDS
        assert (admission.running, admission.waiting) == (4, 0)
        return order

    # Two may wait, so the oldest of three is refused at once.
    assert asyncio.run(run()) == ["first 503", "third", "second 503"]


def test_refusals_are_delayed_when_there_are_many():
    now = 100.0
    admission = Admission(Limits(), 1, clock=lambda: now)
    delays = [admission.refusal_delay() for _ in range(1000)]
    assert delays[:30] == [0.0] * 30
    # Then 50 per second, and at most one second.
    assert delays[60] == pytest.approx((61 - 32) / 50)
    assert max(delays) == 1.0


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
    time.sleep(0.05)
    steps = jobs[0].steps
    time.sleep(0.05)
    assert jobs[0].steps == steps < 50
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


def test_slow_bodies_and_idle_connections_block_nobody(ranker):
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


def test_bodies_count_until_they_are_answered():
    class Request:
        headers = MappingProxyType({})

        async def stream(self):
            yield b"12345"
            yield b"678"

    async def run() -> None:
        bodies = Bodies(Limits())
        async with bodies.read(Request()) as content:
            assert (content, bodies.total) == (b"12345678", 8)
        assert bodies.total == 0

    asyncio.run(run())


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
