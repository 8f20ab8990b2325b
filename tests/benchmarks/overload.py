"""Answered and refused requests of `dssm serve` at many connections, old and new in one run.

    go install github.com/rakyll/hey@latest github.com/bojand/ghz/cmd/ghz@latest
    python -m tests.benchmarks.overload COMPACT/dssm --checkout ../old --checkout . --tools ~/go/bin

prints a table. Each connection sends the next request when the last one is answered or refused
(closed loop). The load generators and the server share the processors of this machine. A row has
the answered requests per second, the 50th and 99th percentile of their latencies, the refused
requests per second, the failed ones, and the processor time of the server per answered request,
that of refusals included, which depends less on other work of the machine. The first two seconds,
in which the connections are opened, do not count.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import compress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import numpy as np

from dssm_tf.common.command_line import run
from tests.benchmarks.scale import load_average
from tests.conftest import CHECKOUT
from tests.engines.engines import free_port, is_listening, wait_until
from tests.server.asking import body_of, request_of

CONNECTIONS = (8, 64, 256, 1024)
TITLES = [f"Galaxy tab {number} case with keyboard, black" for number in range(100)]
QUERY = "galaxy tab keyboard"
INPUTS = {
    "encode_query": {"queries": [QUERY]},
    "score": {"queries": [QUERY], "titles": TITLES},
}


SETTLE = 2  # seconds


class Measurement(NamedTuple):
    """Latencies in seconds of answered requests, and the numbers of the others."""

    answered: list[float]
    refused: int
    failed: int


@contextmanager
def serving(checkout: Path, model: Path) -> Iterator[tuple[str, str, str, int]]:
    """Serves a model with the code of a checkout.

    Yields:
        The addresses of gRPC and REST, the name of the model and the id of the process.
    """
    by_grpc, by_rest = free_port(), free_port()
    command = [sys.executable, "-m", "dssm_tf.cli", "serve", str(model.resolve())]
    command += ["--port", str(by_grpc), "--rest-port", str(by_rest)]
    process = subprocess.Popen(
        command, cwd=checkout, stderr=subprocess.DEVNULL, env={"PYTHONPATH": str(checkout)}
    )
    try:
        if not wait_until(120, lambda: process.poll() or is_listening(by_rest)):
            raise SystemExit(f"dssm serve {model} does not answer")
        yield f"127.0.0.1:{by_grpc}", f"127.0.0.1:{by_rest}", model.name, process.pid
    finally:
        process.terminate()
        process.wait(60)


def cpu_seconds(process: int) -> float:
    """The processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def record(seconds: list[float], process: int) -> None:
    """Appends the processor time of a process."""
    seconds.append(cpu_seconds(process))


def by_rest(tools: Path, address: str, model: str, name: str, connections: int, seconds: int):
    """Measures by hey."""
    with tempfile.NamedTemporaryFile() as body:
        body.write(body_of(name, **INPUTS[name]))
        body.flush()
        result = subprocess.run(
            [tools / "hey", "-z", f"{SETTLE + seconds}s", "-c", str(connections), "-t", "30",
             "-m", "POST", "-D", body.name, "-o", "csv", f"http://{address}/v1/models/{model}:predict"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    rows = [
        row for row in csv.DictReader(io.StringIO(result.stdout)) if float(row["offset"]) >= SETTLE
    ]
    answered = [float(row["response-time"]) for row in rows if row["status-code"] == "200"]
    refused = sum(row["status-code"] == "503" for row in rows)
    return Measurement(answered, refused, len(rows) - len(answered) - refused)


def by_grpc(tools: Path, address: str, model: str, name: str, connections: int, seconds: int):
    """Measures by ghz."""
    with tempfile.NamedTemporaryFile() as body:
        body.write(request_of(model, name, **INPUTS[name]).SerializeToString())
        body.flush()
        result = subprocess.run(
            [tools / "ghz", "--insecure", "--proto", CHECKOUT / "tests/benchmarks/overload.proto",
             "--call", "tensorflow.serving.PredictionService.Predict", "-B", body.name,
             "-c", str(connections), "--connections", str(connections),
             "-z", f"{SETTLE + seconds}s", "-t", "30s", "--duration-stop", "ignore", "-O", "json",
             address],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    details = json.loads(result.stdout)["details"]
    times = np.array([row["timestamp"].rstrip("Z") for row in details], "datetime64[us]")
    is_counted = times >= times.min() + np.timedelta64(SETTLE, "s")
    details = list(compress(details, is_counted))
    answered = [row["latency"] / 1e9 for row in details if row["status"] == "OK"]
    refused = sum(row["status"] == "ResourceExhausted" for row in details)
    return Measurement(answered, refused, len(details) - len(answered) - refused)


def main(
    model: Path,
    *,
    checkout: list[Path],
    tools: Path,
    seconds: int = 4,
    connections: Sequence[int] = CONNECTIONS,
) -> None:
    """Measure `dssm serve` at many connections.

    Args:
        model: directory of a compact model with vectors
        checkout: checkouts of this package to compare; may be repeated
        tools: directory of hey and ghz
        seconds: time of each measurement
        connections: numbers of connections; may be repeated
    """  # fmt: skip
    sys.stdout.write(f"load average {load_average()}\n")
    cells = [
        "checkout", "by", "request", "connections", "answered/s", "p50, ms", "p99", "refused/s",
        "failed", "CPU, ms",
    ]  # fmt: skip
    sys.stdout.write(f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}\n")
    for folder in checkout:
        for count in connections:
            with serving(folder.resolve(), model) as (
                grpc_address, rest_address, name, process
            ):  # fmt: skip
                for by, measure, address in (
                    ("REST", by_rest, rest_address), ("gRPC", by_grpc, grpc_address)
                ):  # fmt: skip
                    for signature in INPUTS if by == "REST" else ("score",):
                        measure(tools, address, name, signature, 4, 1)  # warm up
                        before: list[float] = []
                        timer = Timer(SETTLE, record, (before, process))
                        timer.start()
                        values = measure(tools, address, name, signature, count, seconds)
                        seconds_used = cpu_seconds(process) - before[0]
                        p50, p99 = (
                            np.percentile(values.answered, [50, 99]) if values.answered else (0, 0)
                        )
                        sys.stdout.write(
                            f"| {folder.name} | {by} | {signature} | {count} "
                            f"| {len(values.answered) / seconds:,.0f} | {1000 * p50:.0f} "
                            f"| {1000 * p99:.0f} | {values.refused / seconds:,.0f} "
                            f"| {values.failed} "
                            f"| {1000 * seconds_used / max(1, len(values.answered)):.2f} |\n"
                        )
                        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run("overload", main, None))
