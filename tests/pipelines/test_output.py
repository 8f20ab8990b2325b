"""What a run may replace, what it leaves behind, and what it refuses before any work."""

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
from pipelines.output import OWN

LOG = "query\ttitle\tclicks\n" + "".join(f"q{n}\tt{n % 7}\t{1 + n % 3}\n" for n in range(30))
ROOT = Path(preprocess.__file__).parents[1]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_text(LOG, "utf-8")
    return path


def test_every_file_of_an_output_is_known_as_its_own(run):
    data = run(LOG)
    assert all(any(fnmatchcase(name, own) for own in OWN) for name in names(data.path))


def test_only_what_preprocess_wrote_is_replaced(log, capsys):
    data = log.parent / "data"
    arguments = ["--input", str(log), "--output", str(data), "--overwrite"]
    assert preprocess.run(arguments) == 0
    assert preprocess.run(arguments) == 0
    (data / "notes.txt").write_text("precious")
    assert preprocess.run(arguments) == 1
    assert "is not replaced: this command did not write notes.txt" in capsys.readouterr().err
    for path in data.iterdir():
        path.unlink()
    (data / "vocabulary.txt").write_text("mine\n")  # it has the name of a file of ours
    assert preprocess.run(arguments) == 1
    assert "because it holds no spec.json" in capsys.readouterr().err
    assert names(log.parent) == {"log.tsv", "data"}
    assert names(data) == {"vocabulary.txt"}


def test_a_place_that_holds_an_input_is_never_the_output(log, capsys):
    data = log.parent / "data"
    assert preprocess.run(["--input", str(log), "--output", str(data)]) == 0
    (data / "log.tsv").write_text(LOG, "utf-8")
    link = log.parent / "link"
    link.symlink_to(data)
    given = ["--input", str(data / "log.tsv"), "--overwrite"]
    for output in (data, link, data / ".." / "data"):
        assert preprocess.run([*given, "--output", str(output)]) == 1
        assert "did not write log.tsv in it" in capsys.readouterr().err
    assert (data / "log.tsv").read_text("utf-8") == LOG


def test_a_link_to_an_empty_directory_is_honoured(log):
    (log.parent / "disk").mkdir()
    (log.parent / "data").symlink_to("disk")
    assert preprocess.run(["--input", str(log), "--output", str(log.parent / "data")]) == 0
    assert (log.parent / "disk" / "spec.json").exists()
    assert names(log.parent) == {"log.tsv", "disk", "data"}


def test_brackets_in_a_path_are_letters(tmp_path):
    folder = tmp_path / "logs [2024]"
    folder.mkdir()
    (folder / "clicks[1].tsv").write_text(LOG, "utf-8")
    (folder / "corpus[1].tsv").write_text("title\nt1\nt99\n", "utf-8")
    (tmp_path / "clicks1.tsv").write_text("no table of this name is meant", "utf-8")
    data = tmp_path / "data [x]"
    arguments = ["--corpus", str(folder / "corpus[1].tsv"), "--output", str(data)]
    assert preprocess.run(["--input", str(folder / "clicks[1].tsv"), *arguments]) == 0
    Spec.load(data).check(data)
    (folder / "corpus[1].tsv").rename(tmp_path / "corpus[1].tsv")
    arguments = ["--output", str(tmp_path / "again")]
    assert preprocess.run(["--input", str(folder), *arguments]) == 0


def test_a_full_disk_is_one_line(log, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.frames.as_ipc", full)
    assert preprocess.run(["--input", str(log), "--output", str(log.parent / "data")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "dssm preprocess: [Errno 28] No space left on device"
    assert names(log.parent) == {"log.tsv"}


DIES = """
import os, pathlib, signal, sys
import pipelines.sums
from pipelines import preprocess
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
{moment} = die
preprocess.run(sys.argv[1:])
"""


@pytest.mark.parametrize("moment", ["pipelines.sums.sum_titles", "pathlib.Path.rename"])
def test_what_a_killed_run_left_is_private_and_gone_after_the_next(log, tmp_path_factory, moment):
    temporary = tmp_path_factory.mktemp("temporary")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    arguments = ["--input", str(log), "--output", str(log.parent / "data")]
    code = DIES.format(moment=moment)
    killed = subprocess.run([sys.executable, "-c", code, *arguments], env=environment)
    assert killed.returncode == -signal.SIGKILL
    left = log.parent / ".data.incomplete"
    assert names(log.parent) == {"log.tsv", left.name, ".data.writing"}
    whole = (left / "spec.json").exists()
    assert whole == moment.endswith("rename")  # when it was to get its name
    assert whole or left.stat().st_mode & 0o777 == 0o700
    assert not names(temporary)
    assert preprocess.run(arguments) == 0
    assert names(log.parent) == {"log.tsv", "data"}


def test_records_without_a_negative_are_counted_aloud(log, capsys):
    rows = [*LOG.splitlines(), "q1\tother\t0"]
    text = "\n".join(f"{row}\t{'impressions' if n == 0 else 3}" for n, row in enumerate(rows))
    log.write_text(text + "\n", "utf-8")
    flags = ["--input", str(log), "--output", str(log.parent / "data")]
    flags += ["--negatives-from", "impressions", "--validation-fraction", "0"]
    assert preprocess.run(flags) == 0
    assert "29 pairs without a negative" in capsys.readouterr().err


CONSOLE_SCRIPT = "import sys\nfrom dssm_tf.cli import main\nsys.exit(main())\n"


def test_the_command_works_beside_folders_named_as_its_packages(log, tmp_path):
    for name in ("pipelines", "serving"):
        (tmp_path / "work" / name).mkdir(parents=True)
        (tmp_path / "work" / name / "__init__.py").write_text("raise ImportError('not ours')")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dssm").write_text(CONSOLE_SCRIPT)
    command = [sys.executable, str(tmp_path / "bin" / "dssm"), "preprocess"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONIOENCODING": ""}
    flags = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    done = subprocess.run(
        [*command, "--input", str(log), "--output", "süß", *flags],
        cwd=tmp_path / "work", env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "süß" / "spec.json").exists()
    wrong = subprocess.run(
        [*command, "--input", str(log), "--output", "x", "--negative=3"],
        cwd=tmp_path / "work", env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert wrong.returncode == 1
    assert "Did you mean '--negatives'?" in wrong.stderr
