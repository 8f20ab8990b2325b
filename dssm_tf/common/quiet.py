"""Keeps TensorFlow's start-up chatter off the terminal."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading

# "I0000 00:00:1700000000.000000    123 port.cc:153] ..." and its warning kin; errors pass.
# The two errors are of a machine without a GPU, and of one without AVX-512.
_CHATTER = re.compile(
    rb"^(WARNING: All log messages before absl|[IW]\d{4} .*\.(cc|h):\d+\]"
    rb"|E\d{4} .*\] (failed call to cuInit|oneDNN supports DT_))"
)


def quiet_native_logs() -> None:
    """Drops information and warning lines of TensorFlow's C++ from standard error.

    They bypass Python and every logging setting, so the file descriptor itself is filtered.
    Errors, tracebacks and everything else pass. `DSSM_DEBUG=1` leaves all as it is.
    """
    if os.environ.get("DSSM_DEBUG"):
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for name in ("tensorflow", "absl"):
        logging.getLogger(name).setLevel(logging.ERROR)
    sys.stderr.flush()
    terminal = os.dup(2)
    source, sink = os.pipe()
    os.dup2(sink, 2)
    os.close(sink)
    # Python's own messages and progress bars go straight to the terminal, and know it is one.
    sys.stderr = os.fdopen(os.dup(terminal), "w", buffering=1, errors="backslashreplace")

    def forward() -> None:
        pending = b""
        while chunk := os.read(source, 65536):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if not _CHATTER.match(line):
                    os.write(terminal, line + b"\n")
            # A prompt or progress line without its end is shown at once.
            if pending and not _might_be_chatter(pending):
                os.write(terminal, pending)
                pending = b""
        os.write(terminal, pending)

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()

    def restore() -> None:
        sys.stderr.flush()
        os.dup2(terminal, 2)  # closes the pipe's last writer, so the thread ends
        thread.join(timeout=2)

    atexit.register(restore)


def _might_be_chatter(start: bytes) -> bool:
    return start[:1] in b"IWE" or start.startswith(b"WARNING"[: len(start)])
