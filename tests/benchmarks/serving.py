"""Latencies of `dssm serve` when requests come at a steady rate, over gRPC and REST.

    dssm export --model RUN --out SAVED
    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.serving COMPACT/dssm COMPACT/lstm SAVED/dssm

prints a table. A request encodes one query of WebQuestions. Requests come at even distances,
whether or not those before are answered (open loop): a late start counts, unless it was the
client's own doing. Clients are threads of one process, the server is another; both are on this
machine, over loopback.

Of `--runs` runs each number is the median. CPU is the server's own, in milliseconds of the
processor a request, of all its threads.
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, sleep

import grpc
import numpy as np

from dssm_tf.common.command_line import run
from serving import messages
from tests.benchmarks.runtime import questions
from tests.benchmarks.scale import load_average
from tests.conftest import CHECKOUT
from tests.engines.engines import free_port, is_listening, wait_until
from tests.server.asking import SEPARATE_CONNECTION, body_of, request_of
from tests.server.faults import Target

RATES = (50, 500)  # requests a second
CONNECTIONS = 16
WARM_UP = 20  # requests of each connection

Ask = Callable[[int], None]
"""Asks one of the requests, by number, and waits for the answer."""


def cpu(process: int) -> float:
    """Seconds of the processor that a process has had so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(directory: Path, *flags: str) -> Iterator[tuple[Target, int]]:
    """Serves a model by the command line until the block ends.

    Args:
        directory: of the model.
        flags: of `dssm serve`.

    Returns:
        What can be asked, and the number of the process.
    """
    by_grpc, by_rest = free_port(), free_port()
    command = [sys.executable, "-m", "dssm_tf.cli", "serve", directory]
    command += ["--port", by_grpc, "--rest-port", by_rest, *flags]
    process = subprocess.Popen(list(map(str, command)), cwd=CHECKOUT, stderr=subprocess.DEVNULL)
    target = Target(f"127.0.0.1:{by_grpc}", f"127.0.0.1:{by_rest}", directory.name)
    try:
        if not wait_until(120, lambda: process.poll() or is_listening(by_rest)):
            raise SystemExit(f"dssm serve {directory} does not answer")
        yield target, process.pid
    finally:
        process.terminate()
        if code := process.wait(60):
            raise SystemExit(f"dssm serve {directory} ended with {code}")


@contextlib.contextmanager
def grpc_client(target: Target) -> Iterator[Ask]:
    """A connection of its own."""
    requests = [
        request_of(target.model, "encode_query", queries=[query]).SerializeToString()
        for query in questions()[:1000]
    ]
    with grpc.insecure_channel(target.grpc, SEPARATE_CONNECTION) as channel:
        predict = channel.unary_unary(messages.PREDICT)
        yield lambda number: predict(requests[number % len(requests)], timeout=60)


@contextlib.contextmanager
def rest_client(target: Target) -> Iterator[Ask]:
    """A connection of its own, kept open."""
    path = f"/v1/models/{target.model}:predict"
    requests = [body_of("encode_query", queries=[query]) for query in questions()[:1000]]
    with contextlib.closing(http.client.HTTPConnection(target.rest, timeout=60)) as connection:

        def ask(number: int) -> None:
            connection.request("POST", path, requests[number % len(requests)])
            answer = connection.getresponse()
            if b"outputs" not in answer.read() or answer.status != 200:
                raise RuntimeError(f"HTTP {answer.status}")

        yield ask


CLIENTS = {"gRPC": grpc_client, "REST": rest_client}


def load(target: Target, protocol: str, rate: float, seconds: float) -> list[float]:
    """Asks for some seconds.

    Args:
        target: whom.
        protocol: by which, of `CLIENTS`.
        rate: requests a second.
        seconds: how long.

    Returns:
        The latency of each request in milliseconds.
    """
    numbers, started = itertools.count(), []

    def work() -> list[float]:
        found = []
        with CLIENTS[protocol](target) as ask:
            for number in range(WARM_UP):
                ask(number)
            ready.wait(60)
            for number in numbers:
                due = started[0] + number / rate
                if due >= started[0] + seconds:
                    return found
                if (early := due - perf_counter()) > 0:
                    sleep(early)
                    due = perf_counter()
                ask(number)
                found.append(1000 * (perf_counter() - due))

    # Once all have connected.
    ready = threading.Barrier(CONNECTIONS, lambda: started.append(perf_counter()))
    gc.collect()
    gc.disable()
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        working = [threads.submit(work) for _ in range(CONNECTIONS)]
    gc.enable()
    return [latency for one in working for latency in one.result()]


def measure(directory: Path, seconds: float, runs: int) -> Iterator[str]:
    """The rows of one model."""
    compact = not any(directory.rglob("saved_model.pb"))
    name = f"{directory.name}, {'compact' if compact else 'SavedModel'}"
    with serving(directory) as (target, process):
        for protocol, rate in itertools.product(CLIENTS, RATES):
            found = []
            for _ in range(runs):
                before = cpu(process)
                taken = load(target, protocol, rate, seconds)
                asked = len(taken) + WARM_UP * CONNECTIONS
                used = 1000 * (cpu(process) - before) / asked
                found.append([*np.percentile(taken, (50, 99)), used])
            p50, p99, used = np.median(found, axis=0)
            yield f"| {name} | {protocol} | {rate:g} | {p50:.1f} | {p99:.1f} | {used:.2f} |\n"


def main(*models: Path, seconds: float = 10, runs: int = 5) -> None:
    """Prints a table.

    Args:
        models: what `dssm export` wrote: OUT/NAME.
        seconds: of a run.
        runs: of each model, protocol and rate.
    """
    write = sys.stdout.write
    write("| model | by | requests/s | p50, ms | p99 | CPU, ms |\n|---|---|---|---|---|---|\n")
    for directory in models:
        for row in measure(directory.resolve(), seconds, runs):
            write(row)
            sys.stdout.flush()
    write(f"\n{load_average()}\n")


if __name__ == "__main__":
    sys.exit(run("serving", main, None))
