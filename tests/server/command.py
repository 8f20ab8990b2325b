"""`dssm serve` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

from tests.ports import free_ports
from tests.server.asking import connect, wait_for


def is_listening(port: str) -> bool:
    try:
        connect(f"127.0.0.1:{port}").close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def command(checkout, *arguments: str):
    """Runs `dssm serve` until the block ends; yields the process and its addresses."""
    ports = [*map(str, free_ports(2))]
    process = subprocess.Popen(
        [sys.executable, "-m", "dssm_tf.cli", "serve", *arguments,
         "--port", ports[0], "--rest-port", ports[1]],
        cwd=checkout, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(checkout)},
    )  # fmt: skip
    try:
        wait_for(lambda: process.poll() is not None or all(map(is_listening, ports)), 300)
        yield process, *(f"127.0.0.1:{port}" for port in ports)
    finally:
        process.kill()
        process.communicate()
