"""An engine writes byte for byte what one machine writes, from the plain command line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.clicks import click_log
from tests.engines import engines
from tests.engines.engines import NEEDS, Engine

ENGINES = [
    pytest.param(one, id=one.__name__, marks=[pytest.mark.engines] * bool(NEEDS[one]))
    for one in NEEDS
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tmp_path_factory):
    """Each of the engines, started once."""
    start = request.param
    if NEEDS[start] and not NEEDS[start][0].exists():
        pytest.skip(f"run `make test-engines`, which needs {NEEDS[start][1]}")
    with engines.running(start, tmp_path_factory.mktemp(start.__name__)) as started:
        yield started


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def expected(log, tmp_path_factory) -> dict[str, str]:
    return preprocessed(log, tmp_path_factory.mktemp("local") / "data")


def test_preprocess_writes_the_bytes_of_a_local_run(engine: Engine, log, expected, tmp_path):
    assert preprocessed(log, tmp_path / "data", *engine.flags) == expected
