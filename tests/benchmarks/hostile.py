"""Sends malformed and excessive requests to `dssm serve` for a given time.

    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.hostile COMPACT/dssm --seconds 3600

prints the attacks and the number of each response, the latency of an ordinary query between
attacks, and the maximum memory of the server in each quarter of the time. Exits with 1 if the last
quarter's maximum is more than 5 % above the two before, and with an error at the first response
that gives no reason.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from time import perf_counter

import grpc
import numpy as np

from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from serving import messages
from serving.client import ServingError
from tests.benchmarks.scale import load_average
from tests.benchmarks.serving import serving
from tests.server import faults
from tests.server.asking import OWN_CONNECTION, body_of, connect, predict, request_of
from tests.server.faults import Target

SECONDS = 5.0  # time limit of a request; a silent connection has twice that
UNLIMITED = [*OWN_CONNECTION, ("grpc.max_send_message_length", -1)]


def head_of(target: Target, length: int) -> bytes:
    """The head of a REST request with a body of `length` bytes."""
    head = f"POST /v1/models/{target.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


def many_dimensions(target: Target) -> Counter[str]:
    """Shapes of 32,000 sizes of 2^62, and a text of 64 KB repeated 4,096 times."""
    shape = request_of(target.model, "encode_query", queries=["a"])
    for _ in range(32_000):
        shape.inputs["queries"].tensor_shape.dim.add(size=1 << 62)
    repeated = request_of(target.model, "encode_query", queries=["x" * 65_000])
    repeated.inputs["queries"].tensor_shape.dim[0].size = 4096
    with grpc.insecure_channel(target.grpc, OWN_CONNECTION) as channel:
        requests = (shape, repeated)
        return Counter(predict(channel, request.SerializeToString())[0] for request in requests)


def large(target: Target) -> Counter[str]:
    """The maximum number of texts, bodies and messages above the limit, and nested JSON."""
    texts = ["a quick brown fox"] * 4096
    bodies = (body_of("encode_query", queries=texts), b" " * (5 << 20), b"[" * (1 << 20))
    responses = Counter(map(target.post, bodies))
    with grpc.insecure_channel(target.grpc, UNLIMITED) as channel:
        responses[predict(channel, b" " * (5 << 20))[0]] += 1
    return responses


def half_sent(target: Target) -> Counter[str]:
    """Half heads, bodies without their last byte and calls without a message, 40 of each."""
    unfinished = head_of(target, 4 << 20) + b" " * ((4 << 20) - 1)
    finished = threading.Event()

    def empty_stream():
        finished.wait(60)
        yield from ()

    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(target.grpc, OWN_CONNECTION))
        call = channel.stream_unary(messages.PREDICT)
        calls = [call.future(empty_stream(), timeout=60) for _ in range(40)]
        payloads = [b"POST /v1/mod"] * 40 + [unfinished] * 40
        connections = [stack.enter_context(connect(target.rest)) for _ in payloads]
        responses: Counter[str] = Counter()
        for connection, data in zip(connections, payloads, strict=True):
            with suppress(OSError):  # the server closed the connection
                connection.sendall(data)
        for connection in connections:
            try:
                responses[
                    (connection.recv(1 << 16).split(b" ")[1:2] or [b"closed"])[0].decode()
                ] += 1
            except OSError:
                responses["closed"] += 1
        responses += Counter(call.exception(60).code().name for call in calls)
        finished.set()
    return responses


def unread(target: Target) -> Counter[str]:
    """Long responses that the client does not read."""
    body = body_of("encode_query", queries=["a"] * 2000)
    with ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(connect(target.rest))
            connection.sendall(head_of(target, len(body)) + body)
    return Counter({"closed": 8})


ATTACKS: dict[str, Callable[[Target], Counter[str]]] = {
    "malformed bodies": lambda target: faults.send_malformed_bodies(target, 100),
    "malformed messages": lambda target: faults.send_malformed_messages(target, 100),
    "texts that are not UTF-8": lambda target: faults.send_invalid_utf8(target, 20),
    "heads of a megabyte": lambda target: faults.send_long_heads(target, 5),
    "connections reset at any point": lambda target: faults.drop_connections(target, 100),
    "shapes and repetitions": many_dimensions,
    "large bodies and messages": large,
    "half a request": half_sent,
    "unread responses": unread,
}


def time_answer(target: Target) -> float:
    """Sends an ordinary query until it is answered; returns the seconds until then."""
    started = perf_counter()
    while perf_counter() - started < 60:
        with suppress(ServingError, AssertionError):  # the server is busy with other requests
            target.answers()
            return perf_counter() - started
    raise SystemExit("an ordinary query was not answered within a minute")


def main(model: Path, *, seconds: float = 60) -> None:
    """Prints the tables.

    Args:
        model: directory OUT/NAME that `dssm export` wrote.
        seconds: minimum duration; each attack runs at least twice.

    Raises:
        UserError: the server's memory has grown.
    """
    write = sys.stdout.write
    responses: dict[str, Counter[str]] = {attack_name: Counter() for attack_name in ATTACKS}
    memory, latencies = [], []
    with serving(model.resolve(), "--seconds", str(SECONDS)) as (target, process):
        pages = Path(f"/proc/{process}/statm")
        for attack in ATTACKS.values():  # a first round, so that all code is loaded
            attack(target)
        started = perf_counter()
        for attack_name in itertools.cycle(ATTACKS):
            responses[attack_name] += ATTACKS[attack_name](target)
            latencies.append(1000 * time_answer(target))
            memory.append(int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
            if perf_counter() - started > seconds and len(memory) >= len(ATTACKS):
                break
    write("\n| attack | responses |\n|---|---|\n")
    for attack_name, attack_responses in responses.items():
        counts = ", ".join(f"{number:,} {name}" for name, number in attack_responses.most_common())
        write(f"| {attack_name} | {counts} |\n")
    quarters = [max(samples) for samples in np.array_split(memory, 4)]
    write(
        f"\n{seconds:g} s; an ordinary query between attacks took {np.median(latencies):.0f} ms, "
        f"at most {max(latencies):.0f}; maximum memory in each quarter of the time, MiB: "
        f"{', '.join(f'{mib:.0f}' for mib in quarters)}\n{load_average()}\n"
    )
    if quarters[-1] > 1.05 * max(quarters[1:-1]):
        raise UserError("memory has grown.")


if __name__ == "__main__":
    sys.exit(run("hostile", main, None))
