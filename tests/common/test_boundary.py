"""Whatever happens outside of the program is one line at its end."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import zipfile

import pytest

from dssm_tf.common.boundary import one_line, run_command
from dssm_tf.common.errors import UserError


def failing(error: BaseException):
    def run() -> None:
        raise error

    return run


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/model.h5")


def cleaning_up_after_a_full_disk() -> Exception:
    error = ValueError("Can't close the file while there is an open writing handle")
    error.__context__ = full()
    return error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("no."), "no."),
        (full(), "[Errno 28] No space left on device: 'out/model.h5'"),
        (cleaning_up_after_a_full_disk(), "[Errno 28] No space left on device: 'out/model.h5'"),
        (
            RuntimeError("Can't decrement id ref count (errno = 28, No space left on device)"),
            "Can't decrement id ref count (errno = 28",
        ),
        (
            OSError("602000 requested and 127968 written"),
            "602000 requested and 127968 written: the disk is full, or a limit is reached.",
        ),
        (PermissionError(13, "Permission denied", "a"), "[Errno 13] Permission denied: 'a'"),
        (zipfile.BadZipFile("not a zip"), "not a zip"),
        (MemoryError("116 TiB"), "out of memory. 116 TiB"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_an_error_from_outside_is_one_line_and_exit_code_1(error, line, capsys):
    assert run_command("dssm train", failing(error)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"dssm train: {line}")
    assert said.count("\n") == 1


def test_an_error_of_tensorflow_or_arrow_is_one_line():
    import pyarrow
    import tensorflow as tf

    error = tf.errors.DataLossError(None, None, "corrupted record at 12\n" + "\n at node" * 999)
    assert "\n" not in one_line(error)
    assert len(one_line(error)) < 700
    error = tf.errors.ResourceExhaustedError(None, None, "x.tfrecord; No space left on device\n")
    assert one_line(error).startswith("x.tfrecord; No space left on device")
    assert one_line(pyarrow.ArrowInvalid("not a parquet file")).startswith("not a parquet file")


@pytest.mark.parametrize(("debug", "error"), [("", ZeroDivisionError()), ("1", UserError("no."))])
def test_a_mistake_of_ours_keeps_its_traceback_and_any_where_asked_for(monkeypatch, debug, error):
    monkeypatch.setenv("DSSM_DEBUG", debug)
    with pytest.raises(type(error)):
        run_command("dssm train", failing(error))


def test_what_the_encoding_of_the_terminal_lacks_is_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    assert run_command("dssm train", lambda: sys.stdout.write("epoch 1 · été\n") and None) == 0
    sys.stdout.flush()
    assert raw.getvalue() == b"epoch 1 \\xb7 \\xe9t\\xe9\n"


SLOW = """
import gc, sys, time
from dssm_tf.common.boundary import run_command

def slow(*_):
    try:  # as TensorFlow's destructors do
        print("begun", flush=True)
        time.sleep(1)
    except:
        pass

class Graph:
    def __del__(self):
        slow()

def work():
    {drop}
    time.sleep(60)

sys.exit(run_command("dssm train", work))
"""


@pytest.mark.parametrize("drop", ["Graph()", "gc.callbacks.append(slow); gc.collect()"])
def test_ctrl_c_is_not_lost_in_a_destructor(drop):
    """While a step was traced, one in four was."""
    command = [sys.executable, "-c", SLOW.format(drop=drop)]
    with subprocess.Popen(command, text=True, stdout=-1, stderr=-1) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 1
    assert said == "dssm train: interrupted; the same command resumes, or starts over\n"
