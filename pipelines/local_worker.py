"""A worker process of a local run: Beam's own, without its log on the terminal."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from pathlib import Path

import pipelines


def command(*, verbose: bool) -> str:
    """The shell command that starts a worker with this Python and this package."""
    root = Path(pipelines.__file__).resolve().parent.parent
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); "
        f"from pipelines.local_worker import main; main({verbose})"
    )
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def main(verbose: bool) -> None:
    """Serves a runner until it ends."""
    if not verbose:
        logging.disable(logging.ERROR)
    from apache_beam.runners.worker import sdk_worker_main

    os.environ["POLARS_MAX_THREADS"] = "1"  # there is a worker a core
    sdk_worker_main.main([])
