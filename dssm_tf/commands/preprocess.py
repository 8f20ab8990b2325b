"""`dssm preprocess`: a click log to training records."""

from __future__ import annotations

from collections.abc import Sequence

from dssm_tf.commands.parser import Commands

NAME = "preprocess"


def add(commands: Commands) -> None:
    """Names the sub-command; its flags are its pipeline's and Beam's, see `run`."""
    commands.add_parser(NAME, help="turn a click log into training records", add_help=False)


def run(words: Sequence[str]) -> int:
    """Runs the pipeline with the words that follow the command's name; returns its exit status."""
    from pipelines.options import parse

    parse(words)  # before Beam takes a second to load: help and wrong usage end here
    from pipelines.preprocess import run

    return run(words)
