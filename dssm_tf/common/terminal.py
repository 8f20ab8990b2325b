"""Output of commands."""

from __future__ import annotations

import sys
from typing import IO


def say(*lines: str, to: IO[str] | None = None) -> None:
    """Prints lines without any markup to standard output, or to another stream."""
    stream = to or sys.stdout
    stream.writelines(f"{line}\n" for line in lines)
    stream.flush()
