"""Start-up chatter of TensorFlow's C++ is dropped; everything else on standard error passes."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

CHATTER = [
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    b"I0000 00:00:1700000000.000000     123 port.cc:153] oneDNN custom operations are on.\n",
    b"W0000 00:00:1700000000.000000     123 cuda_executor.cc:1766] no NUMA node\n",
]
SPEECH = [
    b"E0000 00:00:1700000000.000000     123 cuda_platform.cc:52] failed call\n",
    b"dssm train: gamma: input should be greater than 0; received -1.\n",
    b"Indexing 1200 titles\n",
    b"WARNING: this is ours\n",
    b"W is a letter\n",
    "Traceback: café\n".encode(),
]


def stderr_of(code: str, **environment: str) -> bytes:
    code = (
        "import os, sys\nfrom dssm_tf.common.quiet import quiet_native_logs\nquiet_native_logs()\n"
        + code
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=os.environ | environment
    )
    return done.stderr


def write(*chunks: bytes) -> str:
    return "".join(f"os.write(2, {chunk!r})\n" for chunk in chunks)


def test_chatter_is_dropped_and_everything_else_passes_in_order():
    mixed = [line for pair in zip(CHATTER, SPEECH, strict=False) for line in pair] + SPEECH[3:]
    assert stderr_of(write(*mixed)) == b"".join(SPEECH)


def test_lines_that_come_in_pieces_are_put_together():
    whole = CHATTER[1]
    assert (
        stderr_of(write(whole[:1], whole[1:9], whole[9:], SPEECH[1][:4], SPEECH[1][4:]))
        == SPEECH[1]
    )


def test_a_last_line_without_an_end_passes():
    assert stderr_of(write(b"Continue? [y/N] ")) == b"Continue? [y/N] "
    assert stderr_of(write(b"What")) == b"What"


@pytest.mark.parametrize("start", [b"Indexing: ", b"W"])
def test_a_prompt_is_shown_before_the_program_goes_on(start):
    code = (
        "import os, sys\nfrom dssm_tf.common.quiet import quiet_native_logs\nquiet_native_logs()\n"
        f"os.write(2, {b'Continue? ' + start!r})\nsys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        ready, _, _ = select.select([process.stderr], [], [], 120)
        assert ready, "nothing was shown"
        assert os.read(process.stderr.fileno(), 100) == b"Continue? " + start
    finally:
        process.communicate(b"\n")


def test_a_traceback_passes_whole_and_the_exit_code_is_kept():
    assert b"ZeroDivisionError: division by zero" in stderr_of("1 / 0\n")


def test_with_debugging_on_all_of_it_passes():
    assert stderr_of(write(*CHATTER, *SPEECH), DSSM_DEBUG="1") == b"".join(CHATTER + SPEECH)
