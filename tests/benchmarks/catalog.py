"""Time, memory and files of every command on a generated catalog, by its number of titles.

    python -m tests.benchmarks.catalog --corpus corpus.tsv --titles 10000 100000
    python -m tests.benchmarks.catalog --corpus corpus.tsv --titles 1000000

The titles have the word statistics of the corpus, see `tests.benchmarks.maxsim_index`. Clicks are
three for ten titles: a query has one to three words of its title. The steps are those of a user:
`preprocess`, `train`, `index`, `search` (one query, with opening the index), `export --format
opensearch`, and `serve --index`, which is stopped after it has answered some searches. "per title"
is the time of the step divided by the number of titles, in microseconds: it grows with the number
of titles if the time is quadratic. Processor seconds include those of child processes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Annotated, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from cyclopts import Parameter

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS
from dssm_tf.common.command_line import run
from dssm_tf.tables.judgments import read_corpus
from dssm_tf.text.rules import FOLDED
from tests.benchmarks.maxsim_index import generated_titles, write_titles
from tests.benchmarks.scale import ROOT, load_average
from tests.ports import free_ports

STEPS = ("preprocess", "train", "index", "search", "export", "serve")
SEARCHES = 20
LONGEST_START = 900.0
"""Seconds after which a server that does not answer is an error."""
MULTIPLE = Parameter(consume_multiple=True)


class Cost(NamedTuple):
    """Processor seconds, wall-clock seconds and peak MiB of a step."""

    processor: float
    wall: float
    peak: float


def write_inputs(folder: Path, corpus: Path, titles: int, clicks: int, seed: int = 1) -> list[str]:
    """Writes `corpus.tsv` and `clicks.tsv`; returns some queries."""
    rng = random.Random(seed)
    entries = read_corpus(corpus, DEFAULT_TABLE_FLAGS.layout().corpus)
    texts = generated_titles([FOLDED.words(entry.title) for entry in entries], titles, seed)
    write_titles(folder / "corpus.tsv", texts)
    queries = []
    with (folder / "clicks.tsv").open("w", encoding="utf-8") as file:
        file.write("query\ttitle\tclicks\n")
        for _ in range(clicks):
            title = texts[rng.randrange(titles)]
            words = title.split()
            query = " ".join(rng.sample(words, min(len(words), rng.randint(1, 3))))
            file.write(f"{query}\t{title}\t1\n")
            queries.append(query)
    return queries[:SEARCHES]


def command_of(step: str, folder: Path, query: str, settings: tuple[str, ...]) -> list[str]:
    """The arguments of `dssm` for a step; not of `serve`."""
    corpus, data, model = folder / "corpus.tsv", folder / "data", folder / "run"
    arguments: dict[str, list[str | Path]] = {
        "preprocess": ["--input", folder / "clicks.tsv", "--corpus", corpus, "--output", data],
        "train": ["--data", data, "--out", model],
        "index": ["--model", model, "--corpus", corpus, "--out", folder / "index"],
        "search": ["--index", folder / "index", query],
        "export": ["--model", model, "--out", folder / "engine", "--format", "opensearch"],
    }
    if step == "train":
        arguments[step] += [flag for setting in settings for flag in ("--set", setting)]
    if step == "export":
        arguments[step] += ["--corpus", corpus]
    return [step, *map(str, arguments[step])]


def run_step(arguments: list[str]) -> Cost:
    """Runs `dssm` with arguments.

    Raises:
        RuntimeError: the command failed.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "dssm_tf.cli", *arguments],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    errors = process.stderr.read().decode() if process.stderr else ""
    return cost_of(process, started, errors)


def cost_of(process: subprocess.Popen[bytes], started: float, errors: str = "") -> Cost:
    """Waits for a process; returns its cost.

    Raises:
        RuntimeError: the process failed.
    """
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(errors or f"ended with {process.returncode}")
    seconds = usage.ru_utime + usage.ru_stime
    return Cost(seconds, time.monotonic() - started, usage.ru_maxrss / 1024)


def serve(folder: Path, queries: list[str]) -> tuple[Cost, float, float]:
    """Serves an index; returns the cost, seconds until it was ready, and ms per search (median).

    Raises:
        RuntimeError: the server ended, refused a search, or did not answer in time.
    """
    ports = free_ports(2)
    started = time.monotonic()
    with TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dssm_tf.cli", "serve", "--index", str(folder / "index"),
             "--port", str(ports[0]), "--rest-port", str(ports[1])],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
        try:
            answers = search_until_ready(f"http://127.0.0.1:{ports[1]}/v1/search", queries, process)
            ready = next(answers)
            times = sorted(answers)
            process.send_signal(signal.SIGTERM)
            return cost_of(process, started), ready - started, 1000 * times[len(times) // 2]
        except RuntimeError as error:
            log.seek(0)
            raise RuntimeError(f"{error}\n{log.read().decode(errors='replace')}") from None
        finally:
            process.kill()  # if it still runs
            process.wait()


def search_until_ready(
    url: str, queries: list[str], process: subprocess.Popen[bytes]
) -> Iterator[float]:
    """Yields the time at which a server answers, then the seconds of each search.

    Raises:
        RuntimeError: the server ended, refused a search, or did not answer in time.
    """
    give_up = time.monotonic() + LONGEST_START

    def search(query: str) -> None:
        body = json.dumps({"query": query}).encode()
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=60) as reply:
            reply.read()

    while True:
        try:
            search(queries[0])
            break
        except HTTPError as error:  # also a URLError, but a later try would be refused too
            message = error.read().decode(errors="replace")
            raise RuntimeError(f"the server answered {error.code}: {message}") from None
        except (URLError, ConnectionError):
            if process.poll() is not None:
                raise RuntimeError("the server ended before it answered") from None
            if time.monotonic() > give_up:
                raise RuntimeError(f"no answer within {LONGEST_START:g} s") from None
            time.sleep(0.05)
    yield time.monotonic()
    for query in queries:
        started = time.monotonic()
        search(query)
        yield time.monotonic() - started


def size_of(folder: Path) -> dict[Path, int]:
    """The sizes of all files below a folder."""
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def main(
    *,
    corpus: Path,
    titles: Annotated[tuple[int, ...], MULTIPLE] = (10_000, 100_000),
    clicks: int | None = None,
    steps: Annotated[tuple[str, ...], MULTIPLE] = STEPS,
    set: Annotated[tuple[str, ...], MULTIPLE] = (),
) -> None:
    """Prints a table in Markdown, one row per number of titles and step.

    Args:
        corpus: table of titles whose statistics the generated ones have.
        titles: numbers of titles.
        clicks: number of clicks; by default three for ten titles.
        steps: the steps to run, in order; each needs the earlier ones.
        set: KEY=VALUE: settings of the training.
    """
    write = sys.stdout.write
    write(f"{load_average()}\n\n| titles | step | processor s | wall s | per title, µs | ")
    write("peak MiB | MB written | |\n|---|---|---|---|---|---|---|---|\n")
    for count in titles:
        with TemporaryDirectory() as directory:
            folder = Path(directory)
            queries = write_inputs(folder, corpus, count, clicks or max(1, 3 * count // 10))
            for step in steps:
                before, note = size_of(folder), ""
                if step == "serve":
                    cost, ready, milliseconds = serve(folder, queries)
                    note = f"ready after {ready:.1f} s, {milliseconds:.0f} ms per search"
                else:
                    cost = run_step(command_of(step, folder, queries[0], set))
                after = size_of(folder)
                written = sum(size for path, size in after.items() if path not in before)
                write(
                    f"| {count:,} | `{step}` | {cost.processor:,.1f} | {cost.wall:,.1f} | "
                    f"{1e6 * cost.processor / count:,.0f} | {cost.peak:,.0f} | "
                    f"{written / 1e6:,.1f} | {note} |\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run("catalog", main, None))
