"""A log of colors and things, and `dssm benchmark` on it."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from dssm_tf.benchmark import benchmark as benchmark_module
from dssm_tf.benchmark.fit import fit
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError

COLORS, THINGS = ("red", "green", "blue", "black", "white"), ("hat", "tie", "box", "shoe", "coat")
TITLES = [f"{color} {thing}" for color in COLORS for thing in THINGS]
TINY = {
    "tower": {"name": "dssm", "widths": [8]},
    "training": {"epochs": 1, "batch_size": 16, "xla": False},
    "ranking": {"prior": 0.5},
}
# Training fails because clicks have no negatives.
BROKEN = TINY | {"negatives": {"recorded": 0, "in_batch": False}}
METRICS = ("ndcg@1", "ndcg@3", "map")
RANDOM = "doc2vec.size=4"


class InProcessFit:
    """Replaces the process of a fit, to save the time that starting a process takes."""

    def __init__(self, command, stdout, **_) -> None:
        self.code = 0
        try:
            fit(Path(command[3]))
        except UserError as error:
            stdout.write(" ".join(str(error).split()).encode())
            self.code = 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def wait(self) -> int:
        return self.code


def run_command(*arguments: str):
    """Runs `dssm benchmark`; returns the evaluation, standard output and standard error."""
    evaluations, measure_systems = [], benchmark_module.measure_systems
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, redirect_stdout(out), redirect_stderr(err):
        monkeypatch.setenv("COLUMNS", "160")
        # Only in this module, because importing TensorFlow starts a process too.
        monkeypatch.setattr(
            benchmark_module, "subprocess", SimpleNamespace(Popen=InProcessFit, PIPE=None)
        )

        def measure_and_record(*options):
            evaluations.append(measure_systems(*options))
            return evaluations[0]

        monkeypatch.setattr(benchmark_module, "measure_systems", measure_and_record)
        code = main(["benchmark", *arguments])
    if code and not evaluations:
        raise UserError(err.getvalue().splitlines()[-1])
    return evaluations[0], out.getvalue(), err.getvalue()


def benchmark(folder: Path, *arguments: str):
    """Runs the command on the files of `folder`; see `run_command`."""
    names = ("clicks", "judgments", "corpus")
    files = [word for name in names for word in (f"--{name}", str(folder / f"{name}.tsv"))]
    return run_command(*files, *arguments)


ARGUMENTS = (
    "--seeds", "2",
    "--sweep", "bm25.b=0,1", "--sweep", RANDOM,
    "--metrics", ",".join(METRICS), "--tune", "map", "--against", "bm25,popularity", "--jobs", "2",
)  # fmt: skip


def arguments(folder: Path) -> tuple[str, ...]:
    """Flags with a system that fails, an output directory, and rankings of another system."""
    return (
        *ARGUMENTS,
        "--systems", f"popularity,bm25,tfidf,broken={folder / 'broken.yaml'}",
        "--out", str(folder / "out"),
        "--runs", str(folder / "theirs.trec"),
    )  # fmt: skip


def with_prior(*names: str) -> list[str]:
    """Rows of the table: each system without and with the prior."""
    return [row for name in names for row in (name, f"{name}+prior")]
