"""Strangers ask `dssm serve` for everything it refuses, for as long as one likes.

    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.hostile COMPACT/dssm --seconds 3600

prints what was done and how often what came of it, how long an ordinary query took between, and the
most memory of the server in each quarter of the time. Ends with 1 if the last has a twentieth
more than the two before, and with an error at the first answer that names no cause.
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
from tests.server.asking import SEPARATE_CONNECTION, body_of, connect, predict, request_of
from tests.server.faults import Target

SECONDS = 5.0  # of a request; a silent connection has twice that
UNLIMITED = [*SEPARATE_CONNECTION, ("grpc.max_send_message_length", -1)]


def head_of(target: Target, length: int) -> bytes:
    """The head of a REST request with a body of so many bytes."""
    head = f"POST /v1/models/{target.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


def many_dimensions(target: Target) -> Counter[str]:
    """Shapes of 32,000 sizes of 2^62, and a text of 64 KB repeated 4,096 times."""
    shape = request_of(target.model, "encode_query", queries=["a"])
    for _ in range(32_000):
        shape.inputs["queries"].tensor_shape.dim.add(size=1 << 62)
    repeated = request_of(target.model, "encode_query", queries=["x" * 65_000])
    repeated.inputs["queries"].tensor_shape.dim[0].size = 4096
    with grpc.insecure_channel(target.grpc, SEPARATE_CONNECTION) as channel:
        asked = (shape, repeated)
        return Counter(predict(channel, one.SerializeToString())[0] for one in asked)


def large(target: Target) -> Counter[str]:
    """As many texts as are taken, bodies and messages above the limit, and nested JSON."""
    texts = ["a quick brown fox"] * 4096
    bodies = (body_of("encode_query", queries=texts), b" " * (5 << 20), b"[" * (1 << 20))
    found = Counter(map(target.post, bodies))
    with grpc.insecure_channel(target.grpc, UNLIMITED) as channel:
        found[predict(channel, b" " * (5 << 20))[0]] += 1
    return found


def half_sent(target: Target) -> Counter[str]:
    """Half heads, bodies without their last byte and calls without a message, 40 of each."""
    unfinished = head_of(target, 4 << 20) + b" " * ((4 << 20) - 1)
    ended = threading.Event()

    def nothing():
        ended.wait(60)
        yield from ()

    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(target.grpc, SEPARATE_CONNECTION))
        call = channel.stream_unary(messages.PREDICT)
        calls = [call.future(nothing(), timeout=60) for _ in range(40)]
        parts = [b"POST /v1/mod"] * 40 + [unfinished] * 40
        waiting = [stack.enter_context(connect(target.rest)) for _ in parts]
        found: Counter[str] = Counter()
        for one, part in zip(waiting, parts, strict=True):
            with suppress(OSError):  # it was cut off
                one.sendall(part)
        for one in waiting:
            try:
                found[(one.recv(1 << 16).split(b" ")[1:2] or [b"closed"])[0].decode()] += 1
            except OSError:
                found["closed"] += 1
        found += Counter(one.exception(60).code().name for one in calls)
        ended.set()
    return found


def unread(target: Target) -> Counter[str]:
    """Long answers that nobody reads."""
    body = body_of("encode_query", queries=["a"] * 2000)
    with ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(connect(target.rest))
            connection.sendall(head_of(target, len(body)) + body)
    return Counter({"closed": 8})


ATTACKS: dict[str, Callable[[Target], Counter[str]]] = {
    "malformed bodies": lambda target: faults.malformed_bodies(target, 100),
    "malformed messages": lambda target: faults.malformed_messages(target, 100),
    "texts that are no UTF-8": lambda target: faults.invalid_utf8(target, 20),
    "heads of a megabyte": lambda target: faults.long_heads(target, 5),
    "connections reset at any point": lambda target: faults.reset_connections(target, 100),
    "shapes and repetitions": many_dimensions,
    "large bodies and messages": large,
    "half a request": half_sent,
    "answers that nobody reads": unread,
}


def answered(target: Target) -> float:
    """Asks an ordinary query until it is answered; the seconds that took."""
    started = perf_counter()
    while perf_counter() - started < 60:
        with suppress(ServingError, AssertionError):  # others are still computed for
            target.response_seconds()
            return perf_counter() - started
    raise SystemExit("an ordinary query was not answered within a minute")


def main(model: Path, *, seconds: float = 60) -> None:
    """Prints the tables.

    Args:
        model: what `dssm export` wrote: OUT/NAME.
        seconds: how long, but for at least one round.

    Raises:
        UserError: memory has grown.
    """
    write = sys.stdout.write
    came: dict[str, Counter[str]] = {what: Counter() for what in ATTACKS}
    memory, taken = [], []
    with serving(model.resolve(), "--seconds", str(SECONDS)) as (target, process):
        pages = Path(f"/proc/{process}/statm")
        for attack in ATTACKS.values():  # once, so that all code has run
            attack(target)
        started = perf_counter()
        for what in itertools.cycle(ATTACKS):
            came[what] += ATTACKS[what](target)
            taken.append(1000 * answered(target))
            memory.append(int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20)
            if perf_counter() - started > seconds and len(memory) >= len(ATTACKS):
                break
    write("\n| what was done | what came of it |\n|---|---|\n")
    for what, found in came.items():
        told = ", ".join(f"{number:,} {name}" for name, number in found.most_common())
        write(f"| {what} | {told} |\n")
    quarters = [max(part) for part in np.array_split(memory, 4)]
    write(
        f"\n{seconds:g} s; an ordinary query between two took {np.median(taken):.0f} ms, "
        f"{max(taken):.0f} at most; most memory in each quarter of the time, MiB: "
        f"{', '.join(f'{most:.0f}' for most in quarters)}\n{load_average()}\n"
    )
    if quarters[-1] > 1.05 * max(quarters[1:-1]):
        raise UserError("memory has grown.")


if __name__ == "__main__":
    sys.exit(run("hostile", main, None))
