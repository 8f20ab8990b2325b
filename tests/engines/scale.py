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
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

import numpy as np

from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.benchmarks.scale import title_texts, write_log
from tests.engines.engines import ended, flink, running, start, written


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
        local = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
        outputs = [_measured("local, two workers", command, Path(folder) / "local", local)]
        for count in (1, 2):
            name = f"Flink, {count} TaskManager{'s' * (count - 1)}"
            outputs.append(_measured(name, command, Path(folder) / str(count), (), count))
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


def _measured(
    name: str,
    command: Sequence[object],
    output: Path,
    flags: Sequence[str],
    task_managers: int = 0,
) -> dict[str, str]:
    before = getrusage(RUSAGE_CHILDREN)
    module, *arguments = [*command, "--output", output]

    def run(flags: Sequence[str]) -> float:
        started = time.monotonic()
        code, said = ended(start(str(module), [*arguments, *flags]), 7200)
        if code:
            raise SystemExit(said)
        return time.monotonic() - started

    if task_managers:
        folder = output.with_name(f"{output.name}.cluster")
        folder.mkdir()
        with running(lambda one: flink(one, task_managers, pinned=True), folder) as engine:
            seconds = run(engine.flags)
    else:
        seconds = run(flags)
    after = getrusage(RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(f"| {name} | {seconds:,.0f} | {used:,.0f} |\n")
    sys.stdout.flush()
    return written(output)


if __name__ == "__main__":
    main()
