"""The memory of `dssm serve` under the largest load that its limits allow.

    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.memory COMPACT/dssm

prints the memory of the server after its start, and the maximum during each load. Each load runs
against a new server with the default limits. Exits with 1 if a maximum exceeds the first value by
more than `MAX_ADDED_MIB`, or if a health check takes longer than `MAX_HEALTH_SECONDS`; both are
stated in docs/server_limits.md.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import grpc

from dssm_tf.common.command_line import run
from dssm_tf.common.errors import UserError
from serving import messages
from tests.benchmarks.scale import load_average
from tests.benchmarks.serving import serving
from tests.server.asking import OWN_CONNECTION, body_of, connect, request_of, rest
from tests.server.faults import Target

MAX_ADDED_MIB = 1024
MAX_HEALTH_SECONDS = 10.0
LOAD_SECONDS = 15.0  # from when the load is sent until memory is read
MESSAGE_BYTES = 4 << 20
TEXTS = ["a quick brown fox"] * 4096


def head_of(target: Target, length: int) -> bytes:
    """The head of a REST request with a body of `length` bytes."""
    head = f"POST /v1/models/{target.model}:predict HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


def send_to_many(connections: list[socket.socket], data: bytes) -> None:
    """Sends data over all connections in turn, a part at a time, until all is sent or closed."""
    positions = dict.fromkeys(connections, 0)
    for connection in connections:
        connection.setblocking(False)
    end = time.monotonic() + 20
    while positions and time.monotonic() < end:
        for connection, position in list(positions.items()):
            try:
                position += connection.send(data[position : position + (1 << 16)])
            except BlockingIOError:
                continue
            except OSError:  # the server closed it
                position = len(data)
            positions[connection] = position
            if position == len(data):
                del positions[connection]


def slow_bodies(target: Target, stack: ExitStack) -> None:
    """2,000 bodies of 4 MiB without their last byte, over REST."""
    connections = [stack.enter_context(connect(target.rest)) for _ in range(2000)]
    send_to_many(connections, head_of(target, MESSAGE_BYTES) + b" " * (MESSAGE_BYTES - 1))


def large_bodies(target: Target, stack: ExitStack) -> None:
    """200 complete bodies of 4 MiB over REST, of the JSON that takes most memory."""
    connections = [stack.enter_context(connect(target.rest)) for _ in range(200)]
    body = b'{"inputs": [' + b"[]," * ((MESSAGE_BYTES - 20) // 3) + b"[]]}"
    send_to_many(connections, head_of(target, len(body)) + body)


def long_heads(target: Target, stack: ExitStack) -> None:
    """2,000 heads of 32 KB without an end."""
    connections = [stack.enter_context(connect(target.rest)) for _ in range(2000)]
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: " + b"b" * 32_000
    send_to_many(connections, head)


@cache
def dimension(target: Target) -> int:
    """The length of a vector of the model."""
    path = f"/v1/models/{target.model}:predict"
    answer = rest(target.rest, path, body_of("encode_query", queries=["a"]))[1]
    return len(json.loads(answer)["outputs"][0])


def unread_answers(target: Target, stack: ExitStack) -> None:
    """200 answers, each of almost the largest size, over REST that the client does not read."""
    # An answer has at most half of the bytes of `--buffer-bytes`, at 22 bytes per number.
    count = int(0.9 * (32 << 20) / 22 / dimension(target))
    body = body_of("encode_query", queries=TEXTS[:count])
    connections = [stack.enter_context(connect(target.rest)) for _ in range(200)]
    send_to_many(connections, head_of(target, len(body)) + body)


def large_messages(target: Target, stack: ExitStack) -> None:
    """300 complete messages of 4 MB over gRPC, over 30 connections."""
    request = request_of(target.model, "encode_query", queries=["x" * (MESSAGE_BYTES - 200)])
    options = [*OWN_CONNECTION, ("grpc.max_send_message_length", -1)]
    raw = request.SerializeToString()
    for _ in range(30):
        channel = stack.enter_context(grpc.insecure_channel(target.grpc, options))
        call = channel.unary_unary(messages.PREDICT)
        for _ in range(10):
            stack.callback(call.future(raw, timeout=25).cancel)


def unread_messages(target: Target, stack: ExitStack) -> None:
    """200 answers of 4,096 vectors over gRPC that the client does not read."""
    raw = request_of(target.model, "encode_query", queries=TEXTS).SerializeToString()
    for _ in range(20):
        channel = stack.enter_context(grpc.insecure_channel(target.grpc, OWN_CONNECTION))
        call = channel.stream_stream(messages.PREDICT)
        for _ in range(10):
            stack.callback(call(iter([raw]), timeout=25).cancel)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _headers() -> bytes:
    """The headers of a call, not compressed."""
    pairs = {
        ":method": "POST", ":scheme": "http", ":path": messages.PREDICT, ":authority": "localhost",
        "te": "trailers", "content-type": "application/grpc",
    }  # fmt: skip
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in pairs.items()
    )


def slow_messages(target: Target, stack: ExitStack) -> None:
    """500 messages of 4 MiB without their last bytes, over 10 connections of gRPC."""
    threads = [
        threading.Thread(
            target=_send_incomplete, args=(stack.enter_context(connect(target.grpc)), 50)
        )
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _send_incomplete(connection: socket.socket, calls: int) -> None:
    """Sends incomplete messages, as fast as the windows of HTTP/2 allow."""
    connection.settimeout(0.5)
    ids = range(1, 2 * calls, 2)
    data = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"")
    prefix = struct.pack(">BI", 0, MESSAGE_BYTES - 10)
    for number in ids:
        data += _frame(1, 4, number, _headers()) + _frame(0, 0, number, prefix)
    windows = dict.fromkeys(range(0, 2 * calls, 1), 65_535 - 5)
    windows[0] = 65_535 - 5 * calls
    unsent = dict.fromkeys(ids, MESSAGE_BYTES - 1000)
    received, end = b"", time.monotonic() + 15
    with suppress(OSError):
        connection.sendall(data)
        while unsent and time.monotonic() < end:
            with suppress(TimeoutError):
                received += connection.recv(1 << 16)
            while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                length = int.from_bytes(received[:3], "big")
                kind, flags, number = struct.unpack(">BBI", received[3:9])
                payload, received = received[9 : 9 + length], received[9 + length :]
                if kind == 8:
                    windows[number] = windows.get(number, 0) + int.from_bytes(payload, "big")
                elif kind == 3 or (kind == 1 and flags & 1):
                    unsent.pop(number, None)
                elif kind == 4 and not flags & 1:
                    connection.sendall(_frame(4, 1, 0, b""))
                elif kind == 6 and not flags & 1:
                    connection.sendall(_frame(6, 1, 0, payload))
            for number in list(unsent):
                size = min(windows[0], windows[number], unsent[number], 16_384)
                if size > 0:
                    connection.sendall(_frame(0, 0, number, bytes(size)))
                    windows[0] -= size
                    windows[number] -= size
                    unsent[number] -= size


def idle(target: Target, stack: ExitStack) -> None:
    """2,000 idle connections of each protocol."""
    for address in (target.rest, target.grpc):
        for _ in range(2000):
            stack.enter_context(connect(address))


def all_at_once(target: Target, stack: ExitStack) -> None:
    """All of these at once."""
    threads = [threading.Thread(target=load, args=(target, stack)) for load in LOADS[:-1]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


LOADS: tuple[Callable[[Target, ExitStack], None], ...] = (
    slow_bodies, large_bodies, long_heads, unread_answers, large_messages, unread_messages,
    slow_messages, idle, all_at_once,
)  # fmt: skip


def memory(process: int | str, key: str) -> float:
    """A value of the memory of a process, in MiB: `VmRSS` now or `VmHWM` at most."""
    lines = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


@contextmanager
def health_checks(target: Target) -> Iterator[list[float]]:
    """Checks the health twice per second until the block ends; yields the seconds."""
    seconds: list[float] = []
    ended = threading.Event()

    def check() -> None:
        while not ended.wait(0.5):
            started, code = time.monotonic(), 0
            while not code:
                with suppress(OSError):  # one of too many connections, which was closed
                    code = rest(target.rest, "/health")[0]
            assert code == 200
            seconds.append(time.monotonic() - started)

    thread = threading.Thread(target=check)
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()


def main(model: Path, *, load: list[str] | None = None) -> None:
    """Prints the table.

    Args:
        model: directory OUT/NAME that `dssm export` wrote
        load: names of loads; may be repeated; all by default

    Raises:
        UserError: the server needs more memory, or a health check takes longer, than is stated.
    """
    sys.stdout.write(f"load average {load_average()}\n")
    sys.stdout.write("| load | start, MiB | maximum | above the start | health, s |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    above, slowest = 0.0, 0.0
    for function in LOADS:
        if load and function.__name__ not in load:
            continue
        with serving(model.resolve()) as (target, process), ExitStack() as stack:
            dimension(target)  # while the server is not busy
            start = memory(process, "VmRSS")
            with health_checks(target) as seconds:
                function(target, stack)
                time.sleep(LOAD_SECONDS)
            peak = memory(process, "VmHWM")
            stack.close()
        description = (function.__doc__ or "").rstrip(".")
        sys.stdout.write(
            f"| {description} | {start:.0f} | {peak:.0f} | {peak - start:.0f} "
            f"| {max(seconds):.2f} |\n"
        )
        sys.stdout.flush()
        above, slowest = max(above, peak - start), max(slowest, *seconds)
    if above > MAX_ADDED_MIB:
        raise UserError(f"the server needed {above:.0f} MiB; at most {MAX_ADDED_MIB} are stated.")
    if slowest > MAX_HEALTH_SECONDS:
        raise UserError(
            f"a health check took {slowest:.1f} s; at most {MAX_HEALTH_SECONDS:g} are stated."
        )


if __name__ == "__main__":
    sys.exit(run("memory", main, None))
