"""Processor seconds, memory and disk space of preprocess, by size of the log.

    python -m tests.benchmarks.scale --rows 100000 1000000 10000000 [preprocess flags ...]

The logs are synthetic. Queries, titles and words have Zipf distributions with unbounded tails, so
that their numbers grow with the log by Heaps' law: 60,000 queries, 115,000 titles and 44,000 words
in 300,000 rows. It is compared with "by hand", a Polars query that normalizes the texts (ASCII
only) and adds up the clicks of each pair.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from dssm_tf.common.command_line import run
from pipelines.negatives import splitmix64, to_unit_interval

ROOT = Path(__file__).resolve().parents[2]
BY_HAND = """
import sys
import polars as pl
def key(name):
    form = pl.col(name).str.to_lowercase().str.replace_all("[^0-9a-z]+", " ")
    return form.str.strip_chars(" ")
log = pl.scan_csv(sys.argv[1], separator="\\t", quote_char=None)
log.group_by(key("query"), key("title")).agg(pl.col("clicks").sum()).sink_parquet(sys.argv[2])
"""
_BATCH = 200_000
_SYLLABLES = [a + b for a in "bcdfghklmnprstvwz" for b in "aeiou"]


def write_log(path: Path, rows: int, seed: int = 1) -> None:
    """Writes a synthetic click log, the same for the same seed."""
    rng = np.random.default_rng(seed)
    with path.open("w", encoding="utf-8") as file:
        file.write("query\ttitle\tclicks\n")
        for start in range(0, rows, _BATCH):
            count = min(_BATCH, rows - start)
            query = _zipf(rng.random(count), 1.22, 20)
            rare_titles = query * 1009 + _zipf(rng.random(count), 1.9, 1)  # clicked for few queries
            common_titles = _zipf(rng.random(count), 1.25, 50)
            title = np.where(rng.random(count) < 0.55, rare_titles + (1 << 41), common_titles)
            clicks = np.minimum(_zipf(rng.random(count), 2.5, 1), 999)
            columns = _texts(query, 1, 5), title_texts(title), map(str, clicks.tolist())
            file.writelines("\t".join(row) + "\n" for row in zip(*columns, strict=True))


def title_texts(numbers: np.ndarray) -> list[str]:
    """Titles of 4 to 12 words that are functions of the numbers."""
    return _texts(numbers, 4, 13)


def _zipf(uniform: np.ndarray, exponent: float, flat: float) -> np.ndarray:
    """Ranks from 1 with P(rank > k) = (1 + k / flat) ** (1 - exponent)."""
    ranks = flat * ((1 - uniform) ** (1 / (1 - exponent)) - 1)
    return 1 + np.minimum(ranks, 1 << 40).astype(np.int64)


def _texts(numbers: np.ndarray, low: int, high: int) -> list[str]:
    """Texts of `low` to `high - 1` words that are functions of the numbers."""
    distinct, index = np.unique(numbers, return_inverse=True)
    hashed = splitmix64(distinct.astype(np.uint64), high)
    ranks = [
        _zipf(to_unit_interval(splitmix64(hashed, column)), 1.62, 60) for column in range(1, high)
    ]
    sizes = low + (to_unit_interval(splitmix64(hashed)) * (high - low)).astype(int)
    texts = [
        " ".join(map(_word, row[:size]))
        for row, size in zip(np.stack(ranks, 1).tolist(), sizes.tolist(), strict=True)
    ]
    return [texts[row] for row in index.tolist()]


@lru_cache(1 << 20)
def _word(rank: int) -> str:
    word = ""
    while rank:
        rank, syllable = divmod(rank, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word


def measure(log: Path, output: Path, *flags: str) -> tuple[float, float, float]:
    """Runs preprocess; returns processor seconds, peak MiB, and MB written."""
    command = [sys.executable, "-m", "pipelines.preprocess", "--input", str(log), "--output"]
    resources = run_measured([*command, str(output), *flags])
    return *resources, sum(path.stat().st_size for path in output.iterdir()) / 1e6


def run_measured(command: list[str]) -> tuple[float, float]:
    """Runs a command; returns processor seconds, and the peak MiB of its largest process."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    # wait4 measures only this command; RUSAGE_CHILDREN includes the peak of earlier commands.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(errors.decode())
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def load_average() -> str:
    """The load average and the number of cores, as a sentence."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main(
    *flags: Annotated[str, Parameter(allow_leading_hyphen=True)],
    rows: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = (10**5, 10**6, 10**7),
) -> None:
    """Prints a table in Markdown, one row per log."""
    write = sys.stdout.write
    write(f"{load_average()}\n\n")
    write("| rows | log | processor s | rows per processor s | MiB | output | by hand: s | MiB |\n")
    write("|---|---|---|---|---|---|---|---|\n")
    for count in rows:
        with TemporaryDirectory() as directory:
            log = Path(directory) / "clicks.tsv"
            write_log(log, count)
            seconds, peak, output = measure(log, Path(directory) / "data", *flags)
            by_hand, peak_by_hand = run_measured(
                [sys.executable, "-c", BY_HAND, str(log), str(Path(directory) / "pairs.parquet")]
            )
            write(
                f"| {count:,} | {log.stat().st_size / 1e6:,.1f} MB | {seconds:,.1f} | "
                f"{count / seconds:,.0f} | {peak:,.0f} | {output:,.1f} MB | "
                f"{by_hand:,.1f} | {peak_by_hand:,.0f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run("scale", main, None))
