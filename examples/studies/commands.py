"""Runs commands of `dssm` in the process of a study."""

from __future__ import annotations

import sys

from dssm_tf.cli import main


def run_dssm(*arguments: object) -> None:
    """Runs a command; exits with its code if it fails.

    Args:
        arguments: the words of the command after `dssm`.
    """
    if code := main([str(argument) for argument in arguments]):
        sys.exit(code)
