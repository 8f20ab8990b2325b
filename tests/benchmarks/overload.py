"""Answered and refused requests of `dssm serve` at many connections, old and new in one run.

    go install github.com/rakyll/hey@latest github.com/bojand/ghz/cmd/ghz@latest
    python -m tests.benchmarks.overload --server ../old=OLD/dssm --server .=COMPACT/dssm \
        --server constant --tools ~/go/bin

prints a table. A server is a checkout of this package and a model that its version reads. Each
connection sends the next request when the last one is answered or refused (closed loop). The load
generators and the server share the processors of this machine, so the server `constant`, which
computes nothing, shows the ceiling. The servers are measured in turn; a row has the medians of the
rounds: answered requests per second, and as a percentage of the server's best row of this request;
the 50th and 99th percentile of their latencies; the refused requests per second; the failed ones;
the processor time of the server per answered request, that of refusals included, which depends less
on other work of the machine; and the processors that the load generator used. The first two seconds
of a measurement, in which the connections are opened, do not count.
"""

from __future__ import annotations

import csv
import io
import json
import os
import resource
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


CONSTANT = "constant"  # the name of the server that computes nothing


@contextmanager
def serving(server: str) -> Iterator[tuple[str, str, str, int]]:
    """Starts a server.

    Args:
        server: CHECKOUT=MODEL, or `constant`.

    Yields:
        The addresses of gRPC and REST, the name of the model and the id of the process.
    """
    by_grpc, by_rest = free_port(), free_port()
    folder, _, model = server.partition("=")
    checkout = CHECKOUT if server == CONSTANT else Path(folder).resolve()
    command = [sys.executable, "-m", "dssm_tf.cli", "serve", str(Path(model).resolve())]
    command += ["--port", str(by_grpc), "--rest-port", str(by_rest)]
    if server == CONSTANT:
        module = "tests.benchmarks.constant_server"
        command = [sys.executable, "-m", module, str(by_grpc), str(by_rest)]
    process = subprocess.Popen(
        command, cwd=checkout, stderr=subprocess.DEVNULL, env={"PYTHONPATH": str(checkout)}
    )
    try:
        if not wait_until(120, lambda: process.poll() or is_listening(by_rest)):
            raise SystemExit(f"{server} does not answer")
        yield f"127.0.0.1:{by_grpc}", f"127.0.0.1:{by_rest}", Path(model).name, process.pid
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


def processor_seconds_of_children() -> float:
    """The processor time of the load generators that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


KINDS = (("REST", "encode_query"), ("REST", "score"), ("gRPC", "score"))


def measure_server(
    server: str, tools: Path, seconds: int, connections: Sequence[int]
) -> dict[tuple[str, str, int], list[float]]:
    """The values of the rows of a server, by protocol, signature and connections."""
    rows = {}
    with serving(server) as (grpc_address, rest_address, name, process):
        measures = {"REST": (by_rest, rest_address), "gRPC": (by_grpc, grpc_address)}
        for by, signature in KINDS:
            measure, address = measures[by]
            measure(tools, address, name, signature, 4, 1)  # warm up
            for count in connections:
                before: list[float] = []
                timer = Timer(SETTLE, record, (before, process))
                timer.start()
                generator = processor_seconds_of_children()
                values = measure(tools, address, name, signature, count, seconds)
                generator = processor_seconds_of_children() - generator
                used = cpu_seconds(process) - before[0]
                answered = values.answered or [float("nan")]
                p50, p99 = np.percentile(answered, [50, 99])
                rows[by, signature, count] = [
                    len(values.answered) / seconds, 1000 * p50, 1000 * p99,
                    values.refused / seconds, values.failed,
                    1000 * used / max(1, len(values.answered)), generator / (SETTLE + seconds),
                ]  # fmt: skip
    return rows


def main(
    *,
    server: list[str],
    tools: Path,
    seconds: int = 4,
    rounds: int = 2,
    connections: Sequence[int] = CONNECTIONS,
) -> None:
    """Measure `dssm serve` at many connections.

    Args:
        server: CHECKOUT=MODEL, with a compact model with vectors; or `constant`; may be repeated
        tools: directory of hey and ghz
        seconds: time of each measurement
        rounds: number of times that each server is measured, in turn
        connections: numbers of connections; may be repeated
    """
    measured: dict[str, list[dict[tuple[str, str, int], list[float]]]] = {}
    for number in range(rounds):
        sys.stderr.write(f"round {number + 1}, load average {load_average()}\n")
        for name in server:
            rows = measure_server(name, tools, seconds, connections)
            measured.setdefault(name, []).append(rows)
    cells = [
        "server", "by", "request", "connections", "answered/s", "of the best, %", "p50, ms", "p99",
        "refused/s", "failed", "server, ms", "generator, processors",
    ]  # fmt: skip
    sys.stdout.write(f"load average {load_average()}\n")
    sys.stdout.write(f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}\n")
    for name, all_rows in measured.items():
        medians = {key: np.median([rows[key] for rows in all_rows], axis=0) for key in all_rows[0]}
        for (by, signature, count), row in medians.items():
            answered, p50, p99, refused, failed, used, generator = row
            best = max(medians[by, signature, other][0] for other in connections)
            label = name if name == CONSTANT else Path(name.partition("=")[0]).resolve().name
            sys.stdout.write(
                f"| {label} | {by} | {signature} | {count} | {answered:,.0f} "
                f"| {100 * answered / max(best, 1):.0f} | {p50:.0f} | {p99:.0f} | {refused:,.0f} "
                f"| {failed:.0f} | {used:.2f} | {generator:.2f} |\n"
            )


if __name__ == "__main__":
    sys.exit(run("overload", main, None))
