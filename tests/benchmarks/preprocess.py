"""Rows a second, memory and disk of preprocess, beside an earlier commit on the same log.

    python -m tests.benchmarks.preprocess [--rows 300000] [--against COMMIT] [preprocess flags ...]

The log is synthetic. Queries, titles and words have Zipf's distribution with an unbounded tail, so
that all three grow with the log as Heaps found: 60,000 queries, 115,000 titles and 44,000 words in
300,000 rows. The commit is checked out in a worktree of its own and runs with its own defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np

from pipelines.texts import mix, unit

ROOT = Path(__file__).resolve().parents[2]
_BATCH = 200_000
_SYLLABLES = [
    a + b
    for a in ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z"]
    for b in "aeiou"
]


def write_log(path: Path, rows: int, seed: int = 1) -> None:
    """Writes a synthetic click log, the same for the same seed."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        file.write("query\ttitle\tclicks\n")
        for start in range(0, rows, _BATCH):
            count = min(_BATCH, rows - start)
            query = _zipf(rng.random(count), 1.22, 20)
            own = query * 1009 + _zipf(rng.random(count), 1.9, 1)  # titles of few other queries
            shared = _zipf(rng.random(count), 1.25, 50)
            title = np.where(rng.random(count) < 0.55, own + (1 << 41), shared)
            clicks = np.minimum(_zipf(rng.random(count), 2.5, 1), 999)
            columns = _texts(query, 1, 5), _texts(title, 4, 13), map(str, clicks.tolist())
            file.writelines("\t".join(row) + "\n" for row in zip(*columns, strict=True))


def _zipf(uniform: np.ndarray, exponent: float, flat: float) -> np.ndarray:
    """Ranks from 1 with P(rank > k) = (1 + k / flat) ** (1 - exponent)."""
    found = flat * ((1 - uniform) ** (1 / (1 - exponent)) - 1)
    return 1 + np.minimum(found, 1 << 40).astype(np.int64)


def _texts(numbers: np.ndarray, low: int, high: int) -> list[str]:
    """The words of queries or titles, always the same for a number."""
    distinct, place = np.unique(numbers, return_inverse=True)
    hashed = mix(distinct.astype(np.uint64), high)
    ranks = [_zipf(unit(mix(hashed, at)), 1.62, 60) for at in range(1, high)]
    sizes = low + (unit(mix(hashed)) * (high - low)).astype(int)
    texts = [
        " ".join(map(_word, row[:size]))
        for row, size in zip(np.stack(ranks, 1).tolist(), sizes.tolist(), strict=True)
    ]
    return [texts[at] for at in place.tolist()]


@lru_cache(1 << 20)
def _word(rank: int) -> str:
    found = ""
    while rank:
        rank, syllable = divmod(rank, len(_SYLLABLES))
        found += _SYLLABLES[syllable]
    return found


def measure(root: Path, log: Path, output: Path, flags: list[str]) -> dict[str, float]:
    """Runs preprocess of a checkout; see `measured`, and MB written."""
    command = [sys.executable, "-m", "pipelines.preprocess", "--input", str(log), "--output"]
    found = measured([*command, str(output), *flags], root)
    return found | {"output_mb": sum(one.stat().st_size for one in output.iterdir()) / 1e6}


def measured(command: list[str], root: Path = ROOT) -> dict[str, float]:
    """Runs a command; seconds, processor seconds, and MiB of the largest process."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    errors = process.stderr.read()
    # Of this command and its children alone: RUSAGE_CHILDREN keeps the peak of earlier commands.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(errors.decode())
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
    }


def compare(rows: int, flags: list[str], against: str = "") -> dict[str, dict[str, float]]:
    """Measures preprocess, and if a commit is named that of the commit, on one log."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "clicks.tsv"
        write_log(log, rows)
        results = {"this": measure(ROOT, log, Path(directory) / "data", flags)}
        if against:
            other = Path(directory) / "checkout"
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run([*git, "add", "-q", "--detach", str(other), against], check=True)
            try:
                results[against] = measure(other, log, Path(directory) / "other", [])
            finally:
                subprocess.run([*git, "remove", "--force", str(other)], check=True)
        for result in results.values():
            result["log_mb"] = log.stat().st_size / 1e6
            result["rows_a_processor_second"] = rows / result["processor_seconds"]
    return results


def main() -> None:
    """Prints the measurements as a table and as JSON."""
    parser = argparse.ArgumentParser(description="Speed of preprocess.", allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--against", default="", metavar="COMMIT")
    arguments, flags = parser.parse_known_args()
    results = compare(arguments.rows, flags, arguments.against)
    write = sys.stdout.write
    write(f"{arguments.rows:,} rows, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    for name, one in results.items():
        write(
            f"{name:12} {one['rows_a_processor_second']:>10,.0f} rows/processor s "
            f"{one['processor_seconds']:>7.1f} processor s {one['seconds']:>7.1f} s "
            f"{one['peak_mib']:>7,.0f} MiB {one['output_mb']:>7.1f} MB of {one['log_mb']:.1f} MB\n"
        )
    write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
