"""Load on `dssm serve` while versions of its model change: no error, no wrong answer, flat memory.

    dssm export --model RUN --out A --format compact
    dssm export --model RUN --out B --format compact --table int8 --dimension 64
    python -m tests.benchmarks.swaps A/dssm B/dssm --seconds 600

Every `--every` seconds another version takes over, in turn as in A and as in B; every fifth one has
a changed byte and must not. Clients ask over gRPC and REST all the while, `--rate` requests a
second together. Each answer must be that of A or that of B, to the last bit. Prints what came, and
the server's memory; exits with 1 where something failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep

import numpy as np

from dssm_tf.common.model_versions import newest_version
from dssm_tf.server.versions import open_ranker
from serving.client import Client
from tests.benchmarks.runtime import questions
from tests.benchmarks.serving import Served, load_average, serving
from tests.server.asking import body_of, rest

QUERIES = questions()[:50]


class Asking:
    """Clients of both protocols that ask until they are told to end.

    Args:
        served: the server.
        expected: vectors of `QUERIES`, of either version.
        rate: requests a second of each client.
    """

    def __init__(self, served: Served, expected: list[np.ndarray], rate: float) -> None:
        self.answers = [0] * len(expected)
        self.errors: list[str] = []
        self.milliseconds: list[float] = []
        self._ended = threading.Event()
        self._expected, self._pause = expected, 1 / rate
        client = Client(served.grpc, served.model, timeout=60)
        path = f"/v1/models/{served.model}:predict"

        def by_rest(query: str) -> np.ndarray:
            code, told = rest(served.rest, path, body_of("encode_query", queries=[query]))
            if code != 200:
                raise RuntimeError(told)
            return np.float32(json.loads(told)["outputs"][0])

        self._threads = [
            threading.Thread(target=self._ask, args=(ask,))
            for ask in (by_rest, lambda query: client.encode_queries([query])[0])
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Ends them."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, ask: Callable[[str], np.ndarray]) -> None:
        place = 0
        while not self._ended.wait(self._pause):
            place = (place + 1) % len(QUERIES)
            started = perf_counter()
            try:
                found = ask(QUERIES[place])
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                continue
            self.milliseconds.append(1000 * (perf_counter() - started))
            for one, vectors in enumerate(self._expected):
                if np.array_equal(found, vectors[place]):
                    self.answers[one] += 1
                    break
            else:
                self.errors.append(f"a vector of neither version for {QUERIES[place]!r}")


def expected_of(directory: Path) -> np.ndarray:
    """What a version answers, a query at a time as it is asked."""
    ranker = open_ranker(directory)
    return np.concatenate([ranker.encode_queries([one]) for one in QUERIES])


def put(source: Path, base: Path, number: int, broken: bool) -> None:
    """Copies a version into place as `dssm export` writes one: whole, or not at all."""
    aside = shutil.copytree(source, base / f".{number}")
    if broken:
        name = "weights.npz" if (aside / "weights.npz").exists() else "saved_model.pb"
        raw = bytearray((aside / name).read_bytes())
        raw[len(raw) // 2] ^= 1
        (aside / name).write_bytes(raw)
    aside.rename(base / str(number))


def main() -> int:
    """Runs it; returns 1 where something failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs=2, type=Path, metavar="MODEL")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=5, help="seconds a version answers")
    parser.add_argument("--rate", type=float, default=100, help="requests a second")
    arguments = parser.parse_args()
    write = sys.stdout.write
    sources = [newest_version(one.resolve()) for one in arguments.models]
    expected = [expected_of(one) for one in sources]
    write(f"{load_average()}\n")
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "model"
        base.mkdir()
        put(sources[0], base, 1, broken=False)
        flags = ("--poll", "0.5")
        with serving(base, *flags) as served:
            asking = Asking(served, expected, arguments.rate / 2)
            started, number, good, swaps, refused = perf_counter(), 1, 0, 0, 0
            memory: list[float] = []
            while (past := perf_counter() - started) < arguments.seconds:
                number += 1
                broken = number % 5 == 0
                put(sources[(good + 1) % 2], base, number, broken)
                with Client(served.grpc, served.model, timeout=60) as client:
                    wanted = "END" if broken else "AVAILABLE"
                    while dict(one[:2] for one in client.status()).get(number) != wanted:
                        if perf_counter() - started - past > 60:
                            write(f"version {number} is not {wanted} after a minute\n")
                            asking.end()
                            return 1
                        sleep(0.1)
                good, swaps, refused = good + (not broken), swaps + (not broken), refused + broken
                for old in base.glob("[0-9]*"):
                    if int(old.name) < number - 1:
                        shutil.rmtree(old)
                sleep(max(0.0, arguments.every - (perf_counter() - started - past)))
                memory.append(served.mebibytes())
            asking.end()
            write(
                f"{arguments.seconds:g} s, {swaps} versions took over, {refused} damaged ones did "
                f"not: {sum(asking.answers):,} answers ({asking.answers[0]:,} as A, "
                f"{asking.answers[1]:,} as B), {len(asking.errors)} errors\n"
                f"latency p50 {np.percentile(asking.milliseconds, 50):.1f} ms, p99 "
                f"{np.percentile(asking.milliseconds, 99):.1f} ms, longest "
                f"{max(asking.milliseconds):.0f} ms\n"
                f"memory {memory[len(memory) // 10]:.0f} MiB after a tenth of the time, "
                f"{max(memory):.0f} at most, {memory[-1]:.0f} at the end\n{load_average()}\n"
            )
            for error in asking.errors[:10]:
                write(f"{error}\n")
    return int(bool(asking.errors) or not all(asking.answers))


if __name__ == "__main__":
    sys.exit(main())
