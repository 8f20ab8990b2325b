"""Processor seconds, memory and disk of preprocess, from small logs to large ones, and by hand.

    python -m tests.benchmarks.scale --rows 100000 1000000 10000000 [preprocess flags ...]

"By hand" is Polars alone: a log's texts normalised (ASCII only), and clicks summed a pair. The logs
are those of `tests.benchmarks.preprocess`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.preprocess import ROOT, measure, measured, write_log

BY_HAND = """
import sys
import polars as pl
def key(name):
    form = pl.col(name).str.to_lowercase().str.replace_all("[^0-9a-z]+", " ")
    return form.str.strip_chars(" ")
log = pl.scan_csv(sys.argv[1], separator="\\t", quote_char=None)
log.group_by(key("query"), key("title")).agg(pl.col("clicks").sum()).sink_parquet(sys.argv[2])
"""


def main() -> None:
    """Prints a table in Markdown, a row a log."""
    parser = argparse.ArgumentParser(description="Preprocess at scale.", allow_abbrev=False)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    arguments, flags = parser.parse_known_args()
    write = sys.stdout.write
    write(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.0f}\n\n")
    write("| rows | log | processor s | rows a processor s | MiB | output | by hand: s | MiB |\n")
    write("|---|---|---|---|---|---|---|---|\n")
    for rows in arguments.rows:
        with TemporaryDirectory() as directory:
            log = Path(directory) / "clicks.tsv"
            write_log(log, rows)
            ours = measure(ROOT, log, Path(directory) / "data", flags)
            hand = measured(
                [sys.executable, "-c", BY_HAND, str(log), str(Path(directory) / "pairs.parquet")]
            )
            seconds = ours["processor_seconds"]
            write(
                f"| {rows:,} | {log.stat().st_size / 1e6:,.1f} MB | {seconds:,.1f} | "
                f"{rows / seconds:,.0f} | {ours['peak_mib']:,.0f} | {ours['output_mb']:,.1f} MB | "
                f"{hand['processor_seconds']:,.1f} | {hand['peak_mib']:,.0f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
