"""Inputs of the commands, and the outputs of undisturbed commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_node import fake_node
from tests.faults import processes
from tests.faults.commands import ENGINE, TITLES, Command, write_inputs
from tests.faults.processes import Outcome


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> Iterator[Path]:
    """A folder with the inputs of all commands, one of which is a search engine."""
    processes.preload()
    folder = write_inputs(tmp_path_factory.mktemp("inputs"))
    with fake_node({f"d{number}": title for number, title in enumerate(TITLES)}) as node:
        (folder / ENGINE).write_text(node.url, "utf-8")
        yield folder


@pytest.fixture(scope="session")
def undisturbed(inputs, tmp_path_factory):
    """A function that returns the outcome and the files of a command, which runs once."""
    results: dict[str, tuple[Outcome, dict[str, bytes]]] = {}

    def result_of(command: Command) -> tuple[Outcome, dict[str, bytes]]:
        if command.name not in results:
            folder = tmp_path_factory.mktemp("undisturbed")
            outcome = processes.run(command.line(inputs, folder), folder)
            assert outcome.code == 0, outcome.output
            assert not outcome.leftovers
            results[command.name] = outcome, command.result(folder)
        return results[command.name]

    return result_of


@pytest.fixture
def old_output(inputs, tmp_path):
    """A function that writes an output that differs from a new one; returns the `result`."""

    def write(command: Command) -> dict[str, bytes]:
        outcome = processes.run(command.line(inputs, tmp_path), tmp_path)
        assert outcome.code == 0, outcome.output
        out = tmp_path / command.out
        (out if out.is_file() else out / command.old_file).write_bytes(b"old")
        return command.result(tmp_path)

    return write
