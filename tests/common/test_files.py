"""Nothing half-written, whatever happens in between."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write, refuse_existing, refuse_others


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def run(tmp_path) -> Path:
    """A directory that an earlier run has left, alone in its folder."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").write_text("old")
    return tmp_path / "run"


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "deep" / "model.txt"
    with atomic_write(path) as file:
        file.write("héllo\n")
        assert not path.exists()
    assert path.read_bytes() == "héllo\n".encode()
    assert names(path.parent) == {"model.txt"}


def test_bytes_are_written_as_they_are(tmp_path):
    with atomic_write(tmp_path / "raw", "wb") as file:
        file.write(b"\xff\r\n")
    assert (tmp_path / "raw").read_bytes() == b"\xff\r\n"


@pytest.mark.parametrize("error", [TypeError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [[], ["old"]])
def test_a_failed_write_leaves_what_there_was(tmp_path, old, error):
    path = tmp_path / "model.txt"
    for content in old:
        path.write_text(content)

    def fail():
        with atomic_write(path) as file:
            file.write("new")
            file.flush()
            assert path.exists() == bool(old)
            raise error

    with pytest.raises(error):
        fail()
    assert [one.read_text() for one in tmp_path.iterdir()] == old


def test_a_directory_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "deep" / "run"
    with atomic_directory(path) as aside:
        (aside / "weights").write_text("w")
        assert not path.exists()
        assert aside.parent == path.parent  # the same file system, so that the move is one step
    assert names(path) == {"weights"}
    assert names(path.parent) == {"run"}


def test_a_failed_directory_leaves_nothing(tmp_path):
    with pytest.raises(TypeError), atomic_directory(tmp_path / "run") as aside:
        [(aside / name).write_text(name) for name in ("weights", 3)]
    assert names(tmp_path) == set()


def test_a_directory_that_holds_something_is_refused_before_any_work(tmp_path, run):
    with pytest.raises(
        UserError,
        match=r"run exists already; choose another name, remove it first, or give --overwrite",
    ):
        atomic_directory(run).__enter__()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file exists already"):
        refuse_existing(tmp_path / "file")
    assert names(tmp_path) == {"run", "file"}


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "run").mkdir()
    with atomic_directory(tmp_path / "run") as aside:
        (aside / "weights").write_text("w")
    assert names(tmp_path / "run") == {"weights"}
    assert names(tmp_path) == {"run"}


def test_a_directory_is_replaced_as_a_whole_when_asked(run):
    with atomic_directory(run, own=["old", "new"]) as aside:
        (aside / "new").write_text("new")
        assert names(run) == {"old"}
    assert names(run) == {"new"}
    assert names(run.parent) == {"run"}


@pytest.mark.parametrize("removed", [False, True])
def test_a_failed_replacement_leaves_the_old_directory(run, removed):
    with pytest.raises(FileNotFoundError), atomic_directory(run, own=["old", "new"]) as aside:
        # Someone removes the new one just before it is moved.
        aside.rmdir() if removed else (aside / "none").unlink()
    assert names(run) == {"old"}
    assert names(run.parent) == {"run"}


def test_a_directory_with_a_strangers_file_is_never_replaced(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    with pytest.raises(
        UserError, match=r"run is not replaced: this command did not write notes\.txt"
    ):
        atomic_directory(run, own=["weights"]).__enter__()
    (run / "notes.txt").rename(run / "table.tsv")  # a name that the command uses, too
    with pytest.raises(UserError, match="because it holds no weights, which this command writes"):
        refuse_others(run, ["weights", "*.tsv"])
    (run / "weights").write_text("w")
    refuse_others(run, ["weights", "*.tsv"])
    assert names(tmp_path) == {"run"}


def test_a_file_that_somebody_adds_meanwhile_is_not_lost(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with (
        pytest.raises(UserError, match=r"did not write notes\.txt"),
        atomic_directory(run, own=["weights"]),
    ):
        (run / "notes.txt").write_text("mine")
    assert names(run) == {"notes.txt"}
    assert names(tmp_path) == {"run"}


def test_a_link_to_a_directory_is_honoured(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "run"
    link.symlink_to(tmp_path / "disk")
    for text in ("one", "two"):
        with atomic_directory(link, own=["weights"]) as aside:
            (aside / "weights").write_text(text)
        assert link.is_symlink()
        assert (tmp_path / "disk" / "weights").read_text() == text
    assert names(tmp_path) == {"disk", "run"}


def test_two_processes_do_not_write_one_directory(tmp_path):
    with atomic_directory(tmp_path / "run") as aside:
        with pytest.raises(UserError, match="run is being written by another process"):
            atomic_directory(tmp_path / "run").__enter__()
        (aside / "weights").write_text("w")
    assert names(tmp_path / "run") == {"weights"}


def test_what_is_not_complete_is_nobody_elses_to_read(tmp_path):
    with atomic_directory(tmp_path / "run") as aside:
        assert stat.S_IMODE(aside.stat().st_mode) == 0o700


REPLACES = """
import os, signal, sys
from pathlib import Path
from dssm_tf.common.files import atomic_directory
folder, left = Path(sys.argv[1]), int(sys.argv[2])

def count(event, arguments):
    global left
    removes = event in ("os.remove", "os.rmdir")  # of names within a directory that is open
    if removes or event.startswith(("os.", "open")) and str(folder) in str(arguments[0]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
with atomic_directory(folder / "run", own=["spec", "part*"]) as aside:
    (aside / "spec").write_text("new")
    (aside / "part-2").write_text("new")
"""


def test_killed_at_any_operation_one_whole_directory_stands_or_the_next_start_puts_it_back(
    tmp_path,
):
    run, replaced = tmp_path / "run", tmp_path / ".run.replaced"
    for operation in range(100):
        with atomic_directory(run, own=["spec", "part*"]) as aside:
            (aside / "spec").write_text("old")
            (aside / "part-1").write_text("old")
        assert names(tmp_path) == {"run"}  # nothing of the one that was killed before
        command = [sys.executable, "-c", REPLACES, str(tmp_path), str(operation)]
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            break
        assert status == -signal.SIGKILL
        stands = run if run.exists() else replaced
        assert names(stands) in ({"spec", "part-1"}, {"spec", "part-2"})
        if stands is replaced:  # recovered even by a command that may not replace it
            with pytest.raises(UserError, match="exists already"):
                atomic_directory(run).__enter__()
            assert names(tmp_path) == {"run"}
            assert names(run) == {"spec", "part-1"}
    assert operation > 12
    assert names(run) == {"spec", "part-2"}


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_others_may_read_what_the_umask_lets_them(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "file") as file:
            file.write("x")
        with atomic_directory(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750
