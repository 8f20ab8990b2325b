"""kill -9 at random moments of every command that writes files.

A complete output equals the undisturbed one. An old output survives. The same command, run again,
has the same result, and no temporary file is left.
"""

from __future__ import annotations

import random
import shutil
import signal

import pytest

from dssm_tf.commands import COMMANDS as COMMAND_NAMES
from dssm_tf.commands import load_command
from tests.faults import processes
from tests.faults.commands import COMMANDS, NOT_WRITING, REPLACING, command_name, files
from tests.faults.processes import Fault

KILLS = 5  # of each command: 125 in all
ATTEMPTS = 4 * KILLS  # a command may end before it is killed

RESUMABLE = [command for command in COMMANDS if command.resumes and command.last_file]
"""The commands that accept a complete output, and have nothing to do then."""

pytestmark = pytest.mark.slow


def test_every_command_that_writes_files_is_killed():
    names = set()
    for name in COMMAND_NAMES:
        command = load_command(name)
        names |= {f"{name} {part}" for part in command} if isinstance(command, dict) else {name}
    killed = {
        name
        for name in names
        if any(f"{command.arguments} ".startswith(f"{name} ") for command in COMMANDS)
    }
    assert killed.isdisjoint(NOT_WRITING)
    assert killed | NOT_WRITING == names


@pytest.mark.parametrize("command", COMMANDS, ids=command_name)
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
            if command in RESUMABLE:  # the state from which it resumes may be left
                assert command.result(tmp_path).items() >= expected.items(), moments
                again = processes.run(command.line(inputs, tmp_path), tmp_path)
                assert again.code == 0, (moments, again.output)
            assert visible(command.result(tmp_path)) == visible(expected), moments
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
        if kills == KILLS:
            break
    assert kills == KILLS
    again = processes.run(command.line(inputs, tmp_path), tmp_path)
    assert again.code == 0, (moments, again.output)
    assert command.result(tmp_path) == expected, moments


@pytest.mark.parametrize("command", REPLACING, ids=command_name)
def test_an_old_output_survives_a_kill(command, inputs, undisturbed, old_output, tmp_path):
    outcome, expected = undisturbed(command)
    choose, out = random.Random(), tmp_path / command.out
    results = [visible(old_output(command)), visible(expected)]
    replaced = out.with_name(f".{out.name}.replaced")
    kills = 0
    for _ in range(ATTEMPTS):
        fault = Fault(event=choose.randint(1, outcome.events))
        killed = processes.run(command.line(inputs, tmp_path, replace=True), tmp_path, fault)
        assert killed.code in (0, -signal.SIGKILL), (fault, killed.output)
        kills += killed.code != 0
        if kills == 3:
            break  # the command restores an old directory by itself
        if replaced.exists():  # the old directory, until the new one is complete
            shutil.rmtree(out, ignore_errors=True)
            replaced.rename(out)
        assert visible(command.result(tmp_path)) in results, fault
    assert kills == 3
    again = processes.run(command.line(inputs, tmp_path, replace=True), tmp_path)
    assert again.code == 0, again.output
    assert command.result(tmp_path) == expected


VERSIONED = [command for command in COMMANDS if command.writes_versions]


@pytest.mark.parametrize("command", VERSIONED, ids=command_name)
def test_a_version_survives_a_kill_during_the_next_export(command, inputs, undisturbed, tmp_path):
    outcome, expected = undisturbed(command)
    line, choose = command.line(inputs, tmp_path), random.Random()
    processes.run(line, tmp_path)
    first = tmp_path / command.out / command.last_file
    second, old = first.with_name("2"), files(first)
    for _ in range(3):
        fault = Fault(event=choose.randint(1, outcome.events))
        killed = processes.run(line, tmp_path, fault)
        assert killed.code == -signal.SIGKILL or second.exists(), (fault, killed.output)
        assert files(first) == old, fault
        if second.exists():
            assert {*files(second)} == {*old}, fault
            shutil.rmtree(second)
    again = processes.run(line, tmp_path)
    assert again.code == 0, again.output
    shutil.rmtree(first)
    second.rename(first)
    assert command.result(tmp_path) == expected


@pytest.mark.parametrize("command", RESUMABLE, ids=command_name)
def test_a_complete_output_survives_a_kill_of_the_same_command(
    command, inputs, undisturbed, tmp_path
):
    _, expected = undisturbed(command)
    line, choose = command.line(inputs, tmp_path), random.Random()
    processes.run(line, tmp_path)
    outcome = processes.run(line, tmp_path)
    assert outcome.code == 0, outcome.output
    kills = 0
    for _ in range(ATTEMPTS):
        fault = Fault(seconds=choose.uniform(0, outcome.seconds))
        killed = processes.run(line, tmp_path, fault)
        assert killed.code in (0, -signal.SIGKILL), (fault, killed.output)
        kills += killed.code != 0
        assert command.result(tmp_path).items() >= expected.items(), fault
        if kills == 3:
            break
    assert kills == 3
    again = processes.run(line, tmp_path)
    assert again.code == 0, again.output
    assert command.result(tmp_path) == expected


def visible(contents: dict[str, bytes]) -> dict[str, bytes]:
    """The files without unfinished ones, whose names begin with a dot."""
    return {name: content for name, content in contents.items() if not name.startswith(".")}
