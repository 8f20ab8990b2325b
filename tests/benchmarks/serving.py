"""Latencies of `dssm serve` at constant request rates, over gRPC and REST.

    dssm export --model RUN --out SAVED
    dssm export --model RUN --out COMPACT --format compact
    python -m tests.benchmarks.serving COMPACT/dssm COMPACT/lstm SAVED/dssm

prints a table. A request encodes one query of WebQuestions. Requests are sent at regular intervals,
whether or not earlier ones are answered (open loop). If a request starts late because earlier ones
are not answered, the delay is part of its latency; delays that the client causes are not. The
clients are threads of one process and the server is another process on this machine.

Each number is the median of `--runs` runs. CPU is the processor time of all threads of the server
per request, in milliseconds.
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
from tests.server.asking import OWN_CONNECTION, body_of, request_of
from tests.server.faults import Target

RATES = (50, 500)  # requests a second
CONNECTIONS = 16
WARM_UP = 20  # requests per connection

SendRequest = Callable[[int], None]
"""Sends the request with a number and waits for the response."""


def cpu_seconds(process: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(directory: Path, *flags: str) -> Iterator[tuple[Target, int]]:
    """Serves a model by the command line until the block ends.

    Args:
        directory: directory of the model.
        flags: flags of `dssm serve`.

    Yields:
        The address of the model, and the process id.
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
def grpc_client(target: Target) -> Iterator[SendRequest]:
    """A client with a separate connection."""
    requests = [
        request_of(target.model, "encode_query", queries=[query]).SerializeToString()
        for query in questions()[:1000]
    ]
    with grpc.insecure_channel(target.grpc, OWN_CONNECTION) as channel:
        predict = channel.unary_unary(messages.PREDICT)
        yield lambda number: predict(requests[number % len(requests)], timeout=60)


@contextlib.contextmanager
def rest_client(target: Target) -> Iterator[SendRequest]:
    """A client with a separate connection, which stays open."""
    path = f"/v1/models/{target.model}:predict"
    requests = [body_of("encode_query", queries=[query]) for query in questions()[:1000]]
    with contextlib.closing(http.client.HTTPConnection(target.rest, timeout=60)) as connection:

        def send(number: int) -> None:
            connection.request("POST", path, requests[number % len(requests)])
            answer = connection.getresponse()
            if b"outputs" not in answer.read() or answer.status != 200:
                raise RuntimeError(f"HTTP {answer.status}")

        yield send


CLIENTS = {"gRPC": grpc_client, "REST": rest_client}


def load(target: Target, protocol: str, rate: float, seconds: float) -> list[float]:
    """Sends requests at a constant rate.

    Args:
        target: the model to send requests to.
        protocol: a key of `CLIENTS`.
        rate: requests per second.
        seconds: duration.

    Returns:
        The latency of each request in milliseconds.
    """
    request_numbers, started = itertools.count(), []

    def work() -> list[float]:
        latencies = []
        with CLIENTS[protocol](target) as send:
            for request_number in range(WARM_UP):
                send(request_number)
            ready.wait(60)
            for request_number in request_numbers:
                due = started[0] + request_number / rate
                if due >= started[0] + seconds:
                    return latencies
                if (wait := due - perf_counter()) > 0:
                    sleep(wait)
                    due = perf_counter()
                send(request_number)
                latencies.append(1000 * (perf_counter() - due))

    # The clock starts when all clients are connected.
    ready = threading.Barrier(CONNECTIONS, lambda: started.append(perf_counter()))
    gc.collect()
    gc.disable()
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        working = [threads.submit(work) for _ in range(CONNECTIONS)]
    gc.enable()
    return [latency for thread in working for latency in thread.result()]


def measure(directory: Path, seconds: float, runs: int) -> Iterator[str]:
    """The rows of one model."""
    compact = not any(directory.rglob("saved_model.pb"))
    name = f"{directory.name}, {'compact' if compact else 'SavedModel'}"
    with serving(directory) as (target, process):
        for protocol, rate in itertools.product(CLIENTS, RATES):
            results = []
            for _ in range(runs):
                before = cpu_seconds(process)
                latencies = load(target, protocol, rate, seconds)
                requests = len(latencies) + WARM_UP * CONNECTIONS
                cpu_ms = 1000 * (cpu_seconds(process) - before) / requests
                results.append([*np.percentile(latencies, (50, 99)), cpu_ms])
            p50, p99, cpu_ms = np.median(results, axis=0)
            yield f"| {name} | {protocol} | {rate:g} | {p50:.1f} | {p99:.1f} | {cpu_ms:.2f} |\n"


def main(*models: Path, seconds: float = 10, runs: int = 5) -> None:
    """Prints a table.

    Args:
        models: directories OUT/NAME that `dssm export` wrote.
        seconds: duration of a run.
        runs: number of runs per model, protocol and rate.
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
