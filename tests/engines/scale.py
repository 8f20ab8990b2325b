"""Measures seconds and CPU seconds of Flink with one and two TaskManagers, and of a local run.

    make test-engines ENGINES=flink ARGS='-k job_api'     # installs Flink
    python -m tests.engines.scale --rows 10000000

Each TaskManager with its Python workers is pinned to one core. The CPU seconds of Flink are those
of the whole cluster, including its start. `--skew` gives every second row the same query. With
`--model DIRECTORY`, a compact model, the pipeline is `pipelines.embed` of `--rows` titles in 16
files.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

import numpy as np

from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.benchmarks.scale import title_texts, write_log
from tests.engines.engines import Engine, file_hashes, flink, running, start, wait


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--skew", action="store_true")
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        log = Path(folder) / "clicks.tsv"
        if options.model:
            log = Path(folder) / "corpus"
            _write_corpus(log, options.rows)
            module, flags = "pipelines.embed", ["--model", options.model.resolve()]
        else:
            write_log(log, options.rows)
            module, flags = "pipelines.preprocess", ["--shards", 64]
        if options.skew:
            _skew(log)
        command = [module, "--input", log, *flags]
        sys.stdout.write(
            f"load {os.getloadavg()[0]:.0f}\n\n|  | seconds | CPU seconds |\n|---|---|---|\n"
        )
        hashes = []
        for count in range(3):
            output = Path(folder) / str(count)
            output.mkdir()
            hashes.append(_measure([*command, "--output", output / "data"], count, output))
        if any(output_hashes != hashes[0] for output_hashes in hashes):
            raise SystemExit("the outputs differ")


def _skew(log: Path) -> None:
    header, *rows = log.read_text("utf-8").splitlines(keepends=True)
    rows[::2] = ["red fox\t" + row.split("\t", 1)[1] for row in rows[::2]]
    log.write_text(header + "".join(rows), "utf-8")


def _write_corpus(directory: Path, titles: int) -> None:
    directory.mkdir()
    for file, ids in enumerate(np.array_split(np.arange(1, titles + 1), 16)):
        rows = zip(ids, title_texts(ids), strict=True)
        write_corpus(directory / f"{file}.tsv", [CorpusTitle(str(i), t) for i, t in rows])


def _measure(command: list[object], task_managers: int, folder: Path) -> dict[str, str]:
    """Prints a row of the table; returns the hashes of the output files."""
    name, before = "local, two workers", getrusage(RUSAGE_CHILDREN)
    if task_managers:
        name = f"Flink, {task_managers} TaskManager{'s' * (task_managers - 1)}"

    def start_engine(engine: Engine) -> None:
        if task_managers:
            flink(engine, task_managers, pinned=True)
        else:
            engine.flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]

    with running(start_engine, folder) as engine:
        started, (module, *arguments) = time.monotonic(), [*command, *engine.flags]
        code, output = wait(start(str(module), arguments), 7200)
        seconds = time.monotonic() - started
    if code:
        raise SystemExit(output)
    after = getrusage(RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(f"| {name} | {seconds:,.0f} | {cpu_seconds:,.0f} |\n")
    sys.stdout.flush()
    return file_hashes(folder / "data")


if __name__ == "__main__":
    main()
