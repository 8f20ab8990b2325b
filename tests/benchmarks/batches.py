"""Speed of making batches from preprocessed data, by kind of negatives.

    python -m tests.benchmarks.batches --rows 300000

prints pairs per processor second. The log is that of `tests.benchmarks.scale`. A step has 1,024
pairs. The time to read the data is reported separately.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from dssm_tf.common.command_line import run
from tests.benchmarks.scale import measure, write_log

_PASSES = 3


def main(*, rows: int = 300_000) -> None:
    """Prints a table in Markdown, one row per kind of negatives."""
    with TemporaryDirectory() as folder:
        log, directory = Path(folder, "clicks.tsv"), Path(folder, "data")
        write_log(log, rows)
        measure(log, directory)
        from dssm_tf.config import parse_config
        from dssm_tf.data.preprocessed import Preprocessed
        from tests.training.configuration import batches_of

        sys.stdout.write(
            "| negatives | pairs | read, s | pairs per processor s |\n|---|---|---|---|\n"
        )
        for recorded, in_batch, fresh in ((4, False, 0), (0, True, 0), (0, False, 4)):
            negatives = {"recorded": recorded, "in_batch": in_batch, "fresh": fresh}
            training = {"batch_size": 1024}
            config = {"tower": {"name": "dssm"}, "negatives": negatives, "training": training}
            started = process_time()
            data = Preprocessed(directory)
            batches = batches_of(parse_config(config), data)
            reading_seconds, started = process_time() - started, process_time()
            for _ in batches.epochs(0, 0, _PASSES):
                pass
            count = data.count("train")
            speed = _PASSES * count / (process_time() - started)
            name = f"{recorded} recorded, {'in-batch, ' * in_batch}{fresh} fresh"
            sys.stdout.write(f"| {name} | {count:,} | {reading_seconds:.1f} | {speed:,.0f} |\n")


if __name__ == "__main__":
    sys.exit(run("batches", main, None))
