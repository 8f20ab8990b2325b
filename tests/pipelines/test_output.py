"""Outputs that a run may replace, the files of a killed run, and the installed command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dssm_tf.data.format import Spec
from pipelines import preprocess
from pipelines.output import OUTPUT_PATTERNS
from tests.pipelines.written import WrittenData

LOG = "query\ttitle\tclicks\n" + "".join(f"q{n}\tt{n % 7}\t{1 + n % 3}\n" for n in range(30))
ROOT = Path(preprocess.__file__).parents[1]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def log(write) -> Path:
    return write("log.tsv", LOG)


def test_only_an_output_of_preprocess_is_replaced(run, error_of_run, tmp_path):
    data = tmp_path / "data [x]"  # brackets in the path of an output are no glob
    flags = ("--output", str(data))
    run(*flags, log=LOG)
    Spec.load(data).check(data)
    assert all(
        any(fnmatchcase(name, pattern) for pattern in OUTPUT_PATTERNS) for name in names(data)
    )
    assert "data [x] exists already" in error_of_run(*flags, log=LOG)
    flags += ("--overwrite",)
    run(*flags, log=LOG)
    (data / "notes.txt").write_text("precious")
    assert "is not replaced: this command did not write notes.txt" in error_of_run(*flags, log=LOG)
    for path in data.iterdir():
        path.unlink()
    (data / "vocabulary.txt").write_text("mine\n")  # the name of a file of preprocess
    assert "because it contains no spec.json" in error_of_run(*flags, log=LOG)
    assert names(tmp_path) == {"log.tsv", data.name}
    assert names(data) == {"vocabulary.txt"}


def test_an_output_on_a_store_without_its_library_is_a_one_line_error(error_of_run):
    message = error_of_run("--output", "unknown://bucket/data", log=LOG)
    assert "--output unknown://bucket/data cannot be written: " in message
    assert "\n" not in message.strip()


KILLED_IN_SUM_TITLES = """
import os, signal, sys
import pipelines.aggregate
from pipelines import preprocess
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
pipelines.aggregate.sum_titles = die
preprocess.run(sys.argv[1:])
"""


def test_files_of_a_killed_run_are_private_and_removed_by_the_next_run(log, tmp_path_factory):
    temporary = tmp_path_factory.mktemp("temporary")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    arguments = ["--input", str(log), "--output", str(log.parent / "data")]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_SUM_TITLES, *arguments], env=environment
    )
    assert killed.returncode == -signal.SIGKILL
    incomplete = log.parent / ".data.incomplete"
    assert names(log.parent) == {"log.tsv", incomplete.name, ".data.writing"}
    assert incomplete.stat().st_mode & 0o777 == 0o700
    assert not names(temporary)
    assert preprocess.run(arguments) == 0
    assert names(log.parent) == {"log.tsv", "data"}


CONSOLE_SCRIPT = "import sys\nfrom dssm_tf.cli import main\nsys.exit(main())\n"


@pytest.mark.long
def test_the_command_works_beside_folders_named_as_its_packages_and_is_quiet(run, log, tmp_path):
    """And worker processes write the same bytes as a run in one process."""
    for name in ("pipelines", "serving"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "__init__.py").write_text(
            "raise ImportError('the wrong package')"
        )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dssm").write_text(CONSOLE_SCRIPT)
    command = [sys.executable, str(tmp_path / "bin" / "dssm"), "preprocess"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONIOENCODING": ""}
    flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    process = subprocess.run(
        [*command, "--input", str(log), "--output", "süß", *flags],
        cwd=tmp_path / "work", env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert WrittenData(tmp_path / "work" / "süß").bytes() == run("--input", str(log)).bytes()
    lines = [line for line in process.stderr.splitlines() if " preprocess: " not in line]
    assert process.stdout == ""
    assert lines[0].startswith("30 rows in ")
    assert lines[-1].endswith("/report.html")
    assert not [line for line in lines if "WARN" in line or "INFO" in line]
