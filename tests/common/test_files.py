"""Interrupted writes leave no incomplete files or directories."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import (
    atomic_directory,
    atomic_write,
    check_replaceable,
    refilled_directory,
    refuse_existing,
)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def run(tmp_path) -> Path:
    """A directory of an earlier run, the only entry of its folder."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").write_text("old")
    return tmp_path / "run"


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "deep" / "model.txt"
    for mode, content in (("w", "héllo\n"), ("wb", b"\xff\r\n")):
        with atomic_write(path, mode) as file:
            file.write(content)
            assert not path.exists()
        assert names(path.parent) == {"model.txt"}
        raw = path.read_bytes()
        assert raw == (content if mode == "wb" else content.encode())
        path.unlink()


@pytest.mark.parametrize("error", [TypeError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [[], ["old"]])
def test_a_failed_write_leaves_the_old_file_unchanged(tmp_path, old, error):
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
    assert [file.read_text() for file in tmp_path.iterdir()] == old


def test_the_file_of_a_killed_process_is_deleted_and_that_of_a_running_one_stays(tmp_path):
    path = tmp_path / "model.txt"
    (tmp_path / ".model.txt.killed.incomplete").write_text("half")
    (tmp_path / ".model.txt.other").write_text("of a user")
    with atomic_write(path) as first:
        first.write("first")
        with atomic_write(path) as second:
            second.write("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names(tmp_path) == {"model.txt", ".model.txt.other"}


@pytest.mark.parametrize("before", [None, set(), {"old"}])
def test_a_directory_appears_or_is_replaced_only_when_it_is_complete(tmp_path, before):
    path = tmp_path / "deep" / "run"
    if before is not None:
        path.mkdir(parents=True)
        for name in before:
            (path / name).touch()
    with atomic_directory(path, owned_patterns=["old", "new"] if before else []) as new:
        (new / "new").write_text("new")
        assert (names(path) if path.exists() else None) == before
        assert new.parent == path.parent  # the same file system, so that the rename is atomic
        assert stat.S_IMODE(new.stat().st_mode) == 0o700  # not yet readable by others
        with pytest.raises(UserError, match="run is being written by another process"):
            atomic_directory(path).__enter__()
    assert names(path) == {"new"}
    assert names(path.parent) == {"run"}


def test_a_failed_directory_leaves_nothing(tmp_path):
    with pytest.raises(TypeError), atomic_directory(tmp_path / "run") as new:
        [(new / name).write_text(name) for name in ("weights", 3)]
    assert names(tmp_path) == set()


def test_a_directory_that_is_not_empty_is_rejected_before_any_work(tmp_path, run):
    for flag, way in (("", r", or remove it\."), ("--force", r", .* or give --force\.")):
        with pytest.raises(UserError, match=f"run exists already; choose another name{way}"):
            atomic_directory(run, overwrite_flag=flag).__enter__()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file exists already"):
        refuse_existing(tmp_path / "file")
    assert names(tmp_path) == {"run", "file"}


@pytest.mark.parametrize("removed", [False, True])
def test_a_failed_replacement_leaves_the_old_directory(run, removed):
    with (
        pytest.raises(FileNotFoundError),
        atomic_directory(run, owned_patterns=["old", "new"]) as new,
    ):
        # The new directory is removed just before it is renamed.
        new.rmdir() if removed else (new / "none").unlink()
    assert names(run) == {"old"}
    assert names(run.parent) == {"run"}


def test_a_directory_with_a_file_of_another_program_is_never_replaced(tmp_path, run):
    with pytest.raises(UserError, match="run is not replaced: this command did not write old"):
        atomic_directory(run, owned_patterns=["weights"]).__enter__()
    (run / "old").rename(run / "table.tsv")  # the command writes this name, too
    with pytest.raises(
        UserError, match="because it contains no weights, which this command writes"
    ):
        check_replaceable(run, ["weights", "*.tsv"])
    (run / "weights").write_text("w")
    check_replaceable(run, ["weights", "*.tsv"])
    assert names(tmp_path) == {"run"}


def test_a_file_that_is_added_meanwhile_is_not_lost(tmp_path, run):
    with (
        pytest.raises(UserError, match="did not write notes"),
        atomic_directory(run, owned_patterns=["old"]),
    ):
        (run / "notes").write_text("mine")
    assert names(run) == {"old", "notes"}
    assert names(tmp_path) == {"run"}


def test_a_link_to_a_directory_is_followed(tmp_path, run):
    link = tmp_path / "link"
    link.symlink_to(run)
    with atomic_directory(link, owned_patterns=["old", "new"]) as new:
        (new / "new").touch()
    assert link.is_symlink()
    assert names(run) == {"new"}
    assert names(tmp_path) == {"link", "run"}


KILLED_PROGRAM = """
import os, signal, sys
from pathlib import Path
from dssm_tf.common.files import atomic_directory, refilled_directory
folder, left = Path(sys.argv[1]), int(sys.argv[2])

def count(event, arguments):
    global left
    removes = event in ("os.remove", "os.rmdir")  # with a path relative to an open directory
    if removes or event.startswith(("os.", "open")) and str(folder) in str(arguments[0]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
"""
REPLACE = """
with atomic_directory(folder / "run", owned_patterns=["spec", "part*"]) as new:
    (new / "spec").write_text("new")
    (new / "part-2").write_text("new")
"""
REFILL = """
run = folder / "run"
with refilled_directory(run, owned_patterns=["spec", "part*", "page"], last_file="page"):
    (run / "part-2").write_text("new")
    (run / "page").write_text("new")
"""


def test_killed_at_any_operation_a_complete_directory_exists_or_is_restored_by_the_next_start(
    tmp_path,
):
    run, replaced = tmp_path / "run", tmp_path / ".run.replaced"
    for operation in range(100):
        with atomic_directory(run, owned_patterns=["spec", "part*"]) as new:
            (new / "spec").write_text("old")
            (new / "part-1").write_text("old")
        assert names(tmp_path) == {"run"}  # nothing is left of the process that was killed
        command = [sys.executable, "-c", KILLED_PROGRAM + REPLACE, str(tmp_path), str(operation)]
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            break
        assert status == -signal.SIGKILL
        survivor = run if run.exists() else replaced
        assert names(survivor) in ({"spec", "part-1"}, {"spec", "part-2"})
        if survivor is replaced:  # restored even by a command that may not replace it
            with pytest.raises(UserError, match="exists already"):
                atomic_directory(run).__enter__()
            assert names(tmp_path) == {"run"}
            assert names(run) == {"spec", "part-1"}
    assert operation > 12
    assert names(run) == {"spec", "part-2"}


@pytest.mark.parametrize("error", [TypeError, KeyboardInterrupt])
@pytest.mark.parametrize("old", [[], ["run"]])
def test_a_failed_refill_restores_the_old_directory(tmp_path, old, error):
    run = tmp_path / "run"

    def refill(content, error=None):
        with refilled_directory(run, owned_patterns=["spec", "page"], last_file="page"):
            assert names(run) == {"spec"}
            (run / "page").write_text(content)
            if error:
                raise error

    for name in old:
        refill(name)
    with pytest.raises(error):
        refill("new", error)
    assert [path.name for path in tmp_path.iterdir()] == old
    for name in old:
        assert (run / "page").read_text() == name
    refill("new")
    assert names(tmp_path) == {"run"}
    assert (run / "page").read_text() == "new"


def test_a_refill_that_cannot_make_its_directory_restores_the_old_one(tmp_path, monkeypatch):
    run = tmp_path / "run"
    with refilled_directory(run, owned_patterns=["spec", "page"], last_file="page"):
        (run / "page").write_text("old")
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=OSError(28, "No space left on device")))
    with (
        pytest.raises(OSError, match="No space left"),
        refilled_directory(run, owned_patterns=["spec", "page"], last_file="page"),
    ):
        pass
    assert names(tmp_path) == {"run"}
    assert (run / "page").read_text() == "old"


def test_killed_at_any_operation_the_old_directory_exists_until_the_new_directory_is_complete(
    tmp_path,
):
    run, replaced = tmp_path / "run", tmp_path / ".run.replaced"
    patterns = ["spec", "part*", "page"]
    for operation in range(100):
        with refilled_directory(run, owned_patterns=patterns, last_file="page"):
            (run / "part-1").write_text("old")
            (run / "page").write_text("old")
        assert names(tmp_path) == {"run"}  # nothing is left of the process that was killed
        command = [sys.executable, "-c", KILLED_PROGRAM + REFILL, str(tmp_path), str(operation)]
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            break
        assert status == -signal.SIGKILL
        survivor = replaced if replaced.exists() else run
        assert names(survivor) in ({"spec", "part-1", "page"}, {"spec", "part-2", "page"})
        if survivor is replaced and not (run / "page").exists():  # a failing run restores it
            with (
                pytest.raises(TypeError),
                refilled_directory(run, owned_patterns=patterns, last_file="page"),
            ):
                raise TypeError
            assert names(tmp_path) == {"run"}
            assert names(run) == {"spec", "part-1", "page"}
    assert operation > 12
    assert names(run) == {"spec", "part-2", "page"}


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize(
    ("umask", "file_mode", "folder_mode"), [(0o027, 0o640, 0o750), (0o002, 0o664, 0o775)]
)
def test_files_and_directories_have_the_modes_of_the_umask(tmp_path, umask, file_mode, folder_mode):
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "file") as file:
            file.write("x")
        with atomic_directory(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == file_mode
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == folder_mode
