"""kill -9 at random moments of every command that writes files.

A complete output equals the undisturbed one. An old output survives. The same command, run again,
has the same result, and no temporary file is left.
"""

from __future__ import annotations

import random
import shutil
import signal

import pytest

from tests.faults import processes
from tests.faults.commands import COMMANDS, Command, files
from tests.faults.processes import Fault

KILLS = 5  # of each command: 120 in all
ATTEMPTS = 4 * KILLS  # a command may end before it is killed

pytestmark = pytest.mark.slow


def test_there_are_at_least_100_kills():
    assert KILLS * len(COMMANDS) >= 100


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_killed_command_leaves_no_partial_output(command, inputs, undisturbed, tmp_path):
    outcome, expected = undisturbed(command)
    choose = random.Random()
    kills = 0
    moments: list[Fault] = []
    for attempt in range(ATTEMPTS):
        fault = Fault(event=choose.randint(1, outcome.events))
        if attempt % 2:
            fault = Fault(seconds=choose.uniform(0, outcome.seconds))
        moments.append(fault)
        killed = processes.run(command.line(inputs, tmp_path), tmp_path, fault)
        assert killed.code in (0, -signal.SIGKILL), (moments, killed.output)
        kills += killed.code != 0
        if command.is_complete(tmp_path):
            assert visible(command.result(tmp_path)) == visible(expected), moments
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
        if kills == KILLS:
            break
    assert kills == KILLS
    again = processes.run(command.line(inputs, tmp_path), tmp_path)
    assert again.code == 0, (moments, again.output)
    assert command.result(tmp_path) == expected, moments


REPLACING: list[Command] = [command for command in COMMANDS if command.replaces is not None]


@pytest.mark.parametrize("command", REPLACING, ids=lambda command: command.name)
def test_an_old_output_survives_a_kill(command, inputs, undisturbed, tmp_path):
    outcome, expected = undisturbed(command)
    out, choose = tmp_path / command.out, random.Random()
    processes.run(command.line(inputs, tmp_path), tmp_path)
    if out.is_file():
        out.write_bytes(b"old")
    else:
        (out / "report.json").write_bytes(b"old")
    old = visible(files(tmp_path))
    for _ in range(3):
        fault = Fault(event=choose.randint(1, outcome.events))
        processes.run(command.line(inputs, tmp_path, replace=True), tmp_path, fault)
        now = visible(files(tmp_path))
        # Between two renames, a directory has its old name with .replaced.
        assert now in (old, visible(expected)) or (tmp_path / f".{command.out}.replaced").exists()
    again = processes.run(command.line(inputs, tmp_path, replace=True), tmp_path)
    assert again.code == 0, again.output
    assert command.result(tmp_path) == expected


def visible(contents: dict[str, bytes]) -> dict[str, bytes]:
    """The files without unfinished ones, whose names begin with a dot."""
    return {name: content for name, content in contents.items() if not name.startswith(".")}
