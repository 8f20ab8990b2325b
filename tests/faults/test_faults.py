"""A full disk, a limit on file sizes, missing permissions, a wrong clock, and two processes.

A command fails with one line, or has its usual result; nothing is left over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest

from tests.faults import processes
from tests.faults.commands import COMMANDS, REPLACING, Command, command_name, files
from tests.faults.processes import Fault, Outcome, Process

PAGE = 4096  # bytes
SPACE = 1 << 20  # bytes; for temporary files beside the output
YEAR = 365 * 86_400.0
APPENDED = ("out/*log.txt", "out/trials.db*")
"""Files that grow while a command that resumes runs: a log, and a database with a journal."""

pytestmark = pytest.mark.slow
of_each_command = pytest.mark.parametrize("command", COMMANDS, ids=command_name)


def check_failure(outcome: Outcome, *reasons: str) -> None:
    """Checks that a command has failed with one line that has one of the reasons."""
    assert outcome.code == 1, outcome.output
    line = outcome.output.strip().splitlines()[-1]
    assert line.startswith("dssm "), outcome.output
    assert any(reason in line for reason in reasons), line
    assert "Traceback" not in outcome.output
    assert not outcome.leftovers


def check_leftovers(command: Command, folder) -> None:
    """Checks that no output looks complete, and that only resumable files are left."""
    assert not command.is_complete(folder)
    if not command.resumes:
        assert files(folder) == {}


def sizes(expected: dict[str, bytes]) -> list[int]:
    return sorted(map(len, expected.values()))


@of_each_command
def test_every_file_is_written_under_a_name_that_begins_with_a_dot(command, inputs, undisturbed):
    outcome, _ = undisturbed(command)
    assert outcome.opened
    for name in outcome.opened:
        hidden = any(part.startswith(".") for part in name.split("/"))
        assert hidden or any(fnmatchcase(name, pattern) for pattern in APPENDED), name


@of_each_command
def test_a_limit_on_the_size_of_files_is_one_line(command, inputs, undisturbed, tmp_path):
    _, expected = undisturbed(command)
    largest = sizes(expected)[-1]
    outcome = processes.run(
        command.line(inputs, tmp_path), tmp_path, Fault(file_bytes=2 * largest // 3)
    )
    check_failure(outcome, "File too large", "disk")
    check_leftovers(command, tmp_path)
    again = processes.run(command.line(inputs, tmp_path), tmp_path)
    assert again.code == 0, again.output
    assert command.result(tmp_path) == expected


@pytest.mark.parametrize("command", REPLACING, ids=command_name)
def test_an_old_output_survives_a_limit_on_the_size_of_files(
    command, inputs, undisturbed, old_output, tmp_path
):
    _, expected = undisturbed(command)
    old = old_output(command)
    line = command.line(inputs, tmp_path, replace=True)
    check_failure(
        processes.run(line, tmp_path, Fault(file_bytes=2 * sizes(expected)[-1] // 3)),
        "File too large",
        "disk",
    )
    assert command.result(tmp_path) == old


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small disk")
@of_each_command
def test_a_full_disk_is_one_line(command, inputs, undisturbed, tmp_path):
    _, expected = undisturbed(command)
    pages = sum(-(-size // PAGE) for size in sizes(expected))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={PAGE * (pages + 1)}", "none", str(disk)]
    enlarge = ["mount", "-o", f"remount,size={3 * PAGE * pages + SPACE}", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    other = disk / "other"
    try:
        other.write_bytes(bytes(PAGE * (1 + -(-pages // 2))))  # half of the needed pages remain
        outcome = processes.run(command.line(inputs, disk), disk)
        check_failure(outcome, "No space left on device", "disk")
        other.unlink()
        check_leftovers(command, disk)
        subprocess.run(enlarge, check=True)
        again = processes.run(command.line(inputs, disk), disk)
        assert again.code == 0, again.output
        assert command.result(disk) == expected
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="root may write everywhere")
@of_each_command
def test_a_missing_permission_is_one_line(command, inputs, tmp_path):
    tmp_path.chmod(0o500)
    outcome = processes.run(command.line(inputs, tmp_path), tmp_path, Fault(has_permissions=False))
    tmp_path.chmod(0o700)
    check_failure(outcome, "Permission denied", "cannot be written")
    assert files(tmp_path) == {}


@of_each_command
def test_a_clock_that_is_turned_back_changes_nothing(command, inputs, undisturbed, tmp_path):
    outcome, expected = undisturbed(command)
    fault = Fault(clock_shift=-YEAR)
    if command.resumes:  # the first part has later times than the second
        killed = Fault(event=min(20, outcome.events // 2))
        processes.run(command.line(inputs, tmp_path), tmp_path, killed)
    outcome = processes.run(command.line(inputs, tmp_path), tmp_path, fault)
    assert outcome.code == 0, outcome.output
    assert command.result(tmp_path) == expected


@of_each_command
def test_two_processes_on_one_output_write_one_complete_result(
    command, inputs, undisturbed, tmp_path
):
    _, expected = undisturbed(command)
    line = command.line(inputs, tmp_path)
    running = [Process(line, tmp_path), Process(line, tmp_path)]
    outcomes = [process.wait() for process in running]
    assert 0 in {outcome.code for outcome in outcomes}, outcomes
    for outcome in outcomes:
        if outcome.code:
            check_failure(outcome, "written by another process", "exists already", "is in use")
    if command.writes_versions and not any(outcome.code for outcome in outcomes):
        # The first process had ended before the second one began, which wrote version 2.
        first_version = tmp_path / command.out / command.last_file
        second_version = first_version.with_name("2")
        assert {*files(second_version)} == {*files(first_version)}
        shutil.rmtree(second_version)
    assert command.result(tmp_path) == expected
