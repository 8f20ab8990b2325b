"""What Flink costs: seconds and processor seconds of one and two TaskManagers, and of a local run.

    make test-engines ENGINES=flink ARGS='-k job_api'     # installs Flink
    python -m tests.engines.scale --rows 10000000

A TaskManager and its Python workers are pinned to a core of their own. The processor seconds of
Flink are those of the whole cluster, its start among them. `--skew` gives every second row one
query; `--model` embeds a corpus of as many titles, in 16 files, by a compact export.
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
from tests.engines.engines import Engine, ended, flink, running, start, written


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--skew", action="store_true")
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        log = Path(folder) / "clicks.tsv"
        if given.model:
            log = Path(folder) / "corpus"
            _write_corpus(log, given.rows)
            module, options = "pipelines.embed", ["--model", given.model.resolve()]
        else:
            write_log(log, given.rows)
            module, options = "pipelines.preprocess", ["--shards", 64]
        if given.skew:
            _skew(log)
        command = [module, "--input", log, *options]
        sys.stdout.write(
            f"load {os.getloadavg()[0]:.0f}\n\n|  | seconds | processor s |\n|---|---|---|\n"
        )
        outputs = []
        for count in range(3):
            output = Path(folder) / str(count)
            output.mkdir()
            outputs.append(_measured([*command, "--output", output / "data"], count, output))
        if any(one != outputs[0] for one in outputs):
            raise SystemExit("the outputs differ")


def _skew(log: Path) -> None:
    header, *rows = log.read_text("utf-8").splitlines(keepends=True)
    rows[::2] = ["red fox\t" + one.split("\t", 1)[1] for one in rows[::2]]
    log.write_text(header + "".join(rows), "utf-8")


def _write_corpus(directory: Path, titles: int) -> None:
    directory.mkdir()
    for number, part in enumerate(np.array_split(np.arange(1, titles + 1), 16)):
        found = zip(part, title_texts(part), strict=True)
        write_corpus(directory / f"{number}.tsv", [CorpusTitle(str(i), t) for i, t in found])


def _measured(command: list[object], task_managers: int, folder: Path) -> dict[str, str]:
    """Prints a row; returns what was written."""
    name, before = "local, two workers", getrusage(RUSAGE_CHILDREN)
    if task_managers:
        name = f"Flink, {task_managers} TaskManager{'s' * (task_managers - 1)}"

    def parts(engine: Engine) -> None:
        if task_managers:
            flink(engine, task_managers, pinned=True)
        else:
            engine.flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]

    with running(parts, folder) as engine:
        started, (module, *arguments) = time.monotonic(), [*command, *engine.flags]
        code, said = ended(start(str(module), arguments), 7200)
        seconds = time.monotonic() - started
    if code:
        raise SystemExit(said)
    after = getrusage(RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(f"| {name} | {seconds:,.0f} | {used:,.0f} |\n")
    sys.stdout.flush()
    return written(folder / "data")


if __name__ == "__main__":
    main()
