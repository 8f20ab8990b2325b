"""Small logs, and runs of preprocess on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import preprocess
from tests.beam import remember_flags_and_steps
from tests.clicks import click_log, write_data
from tests.pipelines.written import WrittenData
from tests.runs import finished_run


@pytest.fixture(scope="session", autouse=True)
def fast_beam():
    with pytest.MonkeyPatch.context() as patch:
        remember_flags_and_steps(patch)
        yield


@pytest.fixture
def run(tmp_path, write, capsys):
    """Runs preprocess on the text of a TSV log, or on the files of `--input`.

    Returns:
        The output, unless `--output` is in the flags.
    """
    number = 0

    def run(*flags: str, log: str | None = None, code: int = 0) -> WrittenData:
        nonlocal number
        number += 1
        arguments = list(flags)
        if log is not None:
            arguments += ["--input", str(write("log.tsv", log))]
        output = tmp_path / f"data{number}"
        if "--output" not in flags:
            arguments += ["--output", str(output)]
        assert preprocess.run(arguments) == code, capsys.readouterr()
        assert output.exists() == (code == 0 and "--output" not in flags)
        return WrittenData(output)

    return run


@pytest.fixture
def error_of_run(run, capsys):
    """Runs preprocess, which must fail, and returns its one-line error."""

    def error_of_run(*flags: str, log: str | None = None, code: int = 1) -> str:
        capsys.readouterr()
        run(*flags, log=log, code=code)
        # On a slow machine, progress lines come first.
        *before, error = capsys.readouterr().err.splitlines()
        assert all(" preprocess: " in line for line in before)
        assert error.startswith("dssm preprocess: ")
        return error

    return error_of_run


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory) -> Path:
    """A run of a tower with random weights."""
    folder = tmp_path_factory.mktemp("model")
    data = write_data(folder / "data", click_log(), validation=())
    return finished_run(folder / "run", data, {"tower": {"name": "dssm", "widths": [8, 6]}})


@pytest.fixture
def topics() -> str:
    """A log of 60 queries and 25 titles with clicks from 1 to 9."""
    lines = ["query\ttitle\tclicks"]
    for n in range(60):
        for m in range(1 + n % 3):
            lines.append(f"query {n}\tTitle number {(n + 5 * m) % 25}\t{1 + (n * m) % 9}")
    return "\n".join(lines) + "\n"
