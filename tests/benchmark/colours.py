"""A log of colours and things, and `dssm benchmark` on it."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from dssm_tf.benchmark import benchmark as module
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
# Nothing to compare a click with: training refuses it.
BROKEN = TINY | {"negatives": {"recorded": 0, "in_batch": False}}
METRICS = ("ndcg@1", "ndcg@3", "map")
RANDOM = "doc2vec.size=4"


class InThisProcess:
    """Stands in for a fit's process where nothing is tested of that, which saves its start."""

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
    """The command's result, what it printed, and what it said on the error stream."""
    found, real = [], module.measure_systems
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "160")
        # Of this module alone: importing TensorFlow starts a process of its own.
        patch.setattr(module, "subprocess", SimpleNamespace(Popen=InThisProcess, PIPE=None))
        patch.setattr(
            module, "measure_systems", lambda *given: found.append(real(*given)) or found[0]
        )
        code = main(["benchmark", *arguments])
    if code and not found:
        raise UserError(err.getvalue().splitlines()[-1])
    return found[0], out.getvalue(), err.getvalue()


def benchmark(folder: Path, *arguments: str):
    """As `run_command`, on the files of `folder`."""
    names = ("clicks", "judgments", "corpus")
    files = [word for name in names for word in (f"--{name}", str(folder / f"{name}.tsv"))]
    return run_command(*files, *arguments)


ARGUMENTS = (
    "--seeds", "2",
    "--sweep", "bm25.b=0,1", "--sweep", RANDOM,
    "--metrics", ",".join(METRICS), "--tune", "map", "--against", "bm25,popularity", "--jobs", "2",
    "--hybrid", f"bm25+{RANDOM}+prior,bm25+{RANDOM},bm25+broken",
)  # fmt: skip


def arguments(folder: Path) -> tuple[str, ...]:
    return (
        *ARGUMENTS,
        "--systems", f"popularity,bm25,tfidf,broken={folder / 'broken.yaml'}",
        "--out", str(folder / "out"),
        "--runs", str(folder / "theirs.trec"),
    )  # fmt: skip


def with_prior(*names: str) -> list[str]:
    return [one for name in names for one in (name, f"{name}+prior")]
