"""Python code in a process of its own, where nothing is imported yet."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import CHECKOUT


def python(code: str, *arguments: object, **environment: str) -> str:
    """What code prints; it must end with 0 and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=CHECKOUT, capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
