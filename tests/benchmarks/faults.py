"""What disks and kills do to what is served, and to `dssm serve` that looks at it.

    python -m tests.benchmarks.faults --run RUN --compact COMPACT/dssm

RUN is what `dssm train` wrote, COMPACT/dssm what `dssm export --format compact` made of it. Prints
a table: what was done, how often, and what came of it. Ends with an error at a file that is half
there, and at a command that names no cause. What clients do: `tests.benchmarks.hostile`.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import sleep

from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.server.versions import open_ranker
from serving.client import Client
from tests.benchmarks.runtime import questions
from tests.benchmarks.serving import load_average, serving
from tests.conftest import CHECKOUT
from tests.server.faults import Target

WRITE_MODELS = """
import sys
from dssm_tf.common.quiet import load_tensorflow
load_tensorflow()
from dssm_tf.export.compact import export_compact
while True:
    export_compact(sys.argv[1], sys.argv[2], "model")
    print("ready", flush=True)
"""


def write_row(what: str, times: int, came: str) -> None:
    """Prints a row."""
    sys.stdout.write(f"| {what} | {times} | {came} |\n")
    sys.stdout.flush()


def killed(code: str, *words: object, times: int) -> Iterator[None]:
    """Runs a program that writes without end, and kills it somewhere, again and again."""
    chance = random.Random(0)
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)], cwd=CHECKOUT,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("the writer ended by itself")
        sleep(chance.uniform(0, 1))
        process.kill()
        process.wait()
        process.stdout.close()
        yield


def of_killed_exports(run: Path, compact: Path, folder: Path, times: int) -> None:
    """A server that watches where models are exported never sees half of one."""
    base = folder / "model"
    shutil.copytree(newest_version(compact), base / "1")
    with serving(base, "--poll", "0.05") as served:
        target = Target(served.grpc, served.rest, served.model)
        for _ in killed(WRITE_MODELS, run, folder, times=times):
            for number in versions_in(base):
                open_ranker(base / str(number))
        target.answers()
        with Client(served.grpc, served.model, timeout=60) as client:
            if wrong := [one for one in client.status() if one.error]:
                raise SystemExit(f"the server saw {wrong}")
        came = f"{len(versions_in(base)):,} versions, all whole"
        write_row("kill -9 while models are exported", times, came)


def of_full_disks(run: Path, folder: Path) -> None:
    """Commands that may write no file above some KiB end with one line and leave nothing."""
    corpus = folder / "corpus.tsv"
    rows = [f"d{number}\t{query}\n" for number, query in enumerate(questions()[:2000])]
    corpus.write_text("doc_id\ttitle\n" + "".join(rows), "utf-8")
    commands = {
        "dssm index": ["index", "--corpus", corpus],
        "dssm export": ["export"],
        "dssm export --format compact": ["export", "--format", "compact"],
    }
    for what, (name, *rest) in commands.items():
        said = set()
        for kibibytes in (8, 64, 500):
            out = folder / "full" / "out"
            command = [sys.executable, "-m", "dssm_tf.cli", name, "--model", run, *rest]
            done = subprocess.run(
                ["bash", "-c", f'ulimit -f {kibibytes}; exec "$@"', "bash",
                 *map(str, command), "--out", str(out)],
                cwd=CHECKOUT, capture_output=True, text=True,
            )  # fmt: skip
            lines = [line for line in done.stderr.splitlines() if line.startswith("dssm ")]
            left = [one for one in folder.glob("full/**/*") if one.is_file()]
            if done.returncode != 1 or len(lines) != 1 or left or "Traceback" in done.stderr:
                raise SystemExit(f"{what}, {kibibytes} KiB: {done.returncode} {done.stderr} {left}")
            causes = ("File too large", "the disk is full")
            said.add(next((one for one in causes if one in lines[0]), lines[0]))
        write_row(f"{what}, files of at most 8, 64, 500 KiB", 3, "; ".join(said))


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", required=True, type=Path)
    parser.add_argument("--compact", required=True, type=Path)
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    run, compact = arguments.run.resolve(), arguments.compact.resolve()
    sys.stdout.write(
        f"{load_average()}\n\n| what was done | times | what came of it |\n|---|---|---|\n"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("models", "disks"):
            (Path(scratch) / name).mkdir()
        kills = max(1, arguments.kills // 4)
        of_killed_exports(run, compact, Path(scratch) / "models", kills)
        of_full_disks(run, Path(scratch) / "disks")
        with serving(compact, log="/dev/full") as served:
            Target(served.grpc, served.rest, served.model).answers()
            write_row("a log on a full disk", 1, "serves")


if __name__ == "__main__":
    main()
