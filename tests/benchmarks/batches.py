"""Pairs a processor second from what preprocess wrote to batches, by kind of negatives.

    python -m tests.benchmarks.batches --rows 300000

The log is that of `tests.benchmarks.scale`. A step has 1,024 pairs; reading is counted apart.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from tests.benchmarks.scale import measure, write_log

_PASSES = 3


def main() -> None:
    """Prints a table in Markdown, a row a kind of negatives."""
    parser = argparse.ArgumentParser(description="Batches at scale.", allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=300_000)
    rows = parser.parse_args().rows
    with TemporaryDirectory() as folder:
        log, directory = Path(folder, "clicks.tsv"), Path(folder, "data")
        write_log(log, rows)
        measure(log, directory, [])
        from dssm_tf.data.batches import Batches
        from dssm_tf.data.preprocessed import Preprocessed
        from dssm_tf.data.rows import click_rows
        from dssm_tf.data.texts import Numbers

        started = process_time()
        data = Preprocessed(directory)
        texts, pairs = Numbers(data).texts(), data.parts["train"]
        read, count = process_time() - started, len(pairs.query)
        draw = np.maximum(data.title_counts[0], 0.5) ** 0.75
    sys.stdout.write(f"{count:,} pairs read in {read:.1f} processor s\n\n")
    sys.stdout.write("| negatives | pairs a processor s |\n|---|---|\n")
    for recorded, in_batch, fresh in ((4, False, 0), (0, True, 0), (0, False, 4)):
        rows_read = click_rows(pairs, recorded, "none", 1024)
        batches = Batches(
            texts, ({"train": rows_read},), fresh, draw / draw.sum(), in_batch
        ).planned()
        started = process_time()
        for _ in batches.epochs(0, 0, _PASSES):
            pass
        speed = _PASSES * count / (process_time() - started)
        name = f"{recorded} recorded, {'in-batch' if in_batch else 'no in-batch'}, {fresh} fresh"
        sys.stdout.write(f"| {name} | {speed:,.0f} |\n")


if __name__ == "__main__":
    main()
