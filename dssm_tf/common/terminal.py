"""What a command says."""

from __future__ import annotations

import sys
from typing import IO


def say(*lines: str, to: IO[str] | None = None) -> None:
    """Prints lines as they are, whatever letters they have: to standard output, or elsewhere."""
    stream = to or sys.stdout
    stream.writelines(f"{line}\n" for line in lines)
    stream.flush()
