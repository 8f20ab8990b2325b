"""An engine writes byte for byte what one machine writes, from the plain command line."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.clicks import click_log
from tests.engines import engines

JARS = engines.CHECKOUT / "build" / "engines" / "flink"
PRISM = engines.CHECKOUT / "build" / "engines" / "bin" / "prism"


@pytest.fixture(scope="session")
def log(tmp_path_factory) -> Path:
    """A log with sessions, robots, titles shown and not clicked, positions, and bad rows."""
    rows = ["query\ttitle\tclicks\timpressions\tposition\tsession_id"]
    for number, one in enumerate(click_log(400)):
        rows.append(f"{one.query}\t{one.title}\t1\t2\t{number % 5 + 1}\ts{number % 90}")
        rows.append(f"{one.query}\tshown {number % 7}\t0\t1\t{number % 3 + 1}\ts{number % 90}")
    rows += [f"robot {number}\tred fox\t1\t1\t1\trobot" for number in range(150)]
    rows += ["no title\t", "too\tmany\tclicks\tx\ty\tz"]
    path = tmp_path_factory.mktemp("log") / "clicks.tsv"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


def written(output: Path) -> dict[str, str]:
    """The SHA-256 of every file."""
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in output.iterdir()}


def preprocessed(log: Path, output: Path, *flags: str) -> dict[str, str]:
    """What preprocess writes."""
    options = ["--negatives-from", "both", "--shards", "4", *flags]
    done = engines.run("pipelines.preprocess", ["--input", log, "--output", output, *options])
    assert done.returncode == 0, done.stdout + done.stderr
    return written(output)


@pytest.fixture(scope="session")
def expected(log, tmp_path_factory) -> dict[str, str]:
    return preprocessed(log, tmp_path_factory.mktemp("local") / "data")


def test_a_job_service_writes_the_bytes_of_a_local_run(log, expected, tmp_path):
    with engines.job_api(tmp_path) as flags:
        assert preprocessed(log, tmp_path / "data", *flags) == expected


@pytest.mark.engines
def test_flink_with_two_task_managers_writes_the_bytes_of_a_local_run(log, expected, tmp_path):
    if not (shutil.which("java") and JARS.is_dir()):
        pytest.skip("needs Java 11 or newer and Maven; `make test-engines` fetches Flink")
    with engines.flink(JARS, tmp_path) as flags:
        assert preprocessed(log, tmp_path / "data", *flags) == expected


@pytest.mark.engines
def test_prism_writes_the_bytes_of_a_local_run(log, expected, tmp_path):
    if not os.access(PRISM, os.X_OK):
        pytest.skip("needs Go; `make test-engines` builds Prism")
    with engines.prism(PRISM, tmp_path) as flags:
        assert preprocessed(log, tmp_path / "data", *flags) == expected
