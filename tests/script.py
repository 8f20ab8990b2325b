"""Runs Python code in a new process, where nothing is imported yet."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import CHECKOUT


def python(code: str, *arguments: object, **environment: str) -> str:
    """Runs code and returns its output; asserts exit code 0 and an empty standard error."""
    process = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=CHECKOUT, capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout
