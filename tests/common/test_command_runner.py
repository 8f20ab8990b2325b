"""Errors of files, disks and users end a command with one line; bugs keep their traceback."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from dssm_tf.common.command_runner import error_line, run_command
from dssm_tf.common.errors import UserError


def raises(error: BaseException):
    def run() -> None:
        raise error

    return run


def disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out/model.h5")


def clean_up_error() -> Exception:
    """An error that is raised while another one, of a full disk, is handled."""
    error = ValueError("Can't close the file while there is an open writing handle")
    error.__context__ = disk_full()
    return error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("no."), "no."),
        (disk_full(), "[Errno 28] No space left on device: 'out/model.h5'"),
        (
            clean_up_error(),
            "[Errno 28] No space left on device: 'out/model.h5'",
        ),
        (
            RuntimeError("Can't decrement id ref count (errno = 28, No space left on device)"),
            "Can't decrement id ref count (errno = 28",
        ),
        (PermissionError(13, "Permission denied", "a"), "[Errno 13] Permission denied: 'a'"),
        (zipfile.BadZipFile("not a zip"), "not a zip"),
        (MemoryError("116 TiB"), "out of memory. 116 TiB"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_an_external_error_is_one_line_and_exit_code_1(error, line, capsys):
    assert run_command("dssm train", raises(error)) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"dssm train: {line}")
    assert stderr.count("\n") == 1


def test_an_error_of_tensorflow_or_arrow_is_one_line():
    import pyarrow
    import tensorflow as tf

    error = tf.errors.DataLossError(None, None, "corrupted record at 12\n" + "\n at node" * 999)
    assert "\n" not in error_line(error)
    assert len(error_line(error)) < 700
    error = tf.errors.ResourceExhaustedError(None, None, "x.tfrecord; No space left on device\n")
    assert error_line(error).startswith("x.tfrecord; No space left on device")
    assert error_line(pyarrow.ArrowInvalid("not a parquet file")).startswith("not a parquet file")


@pytest.mark.parametrize(("debug", "error"), [("", ZeroDivisionError()), ("1", UserError("no."))])
def test_a_bug_has_a_traceback_and_with_debugging_every_error_has(monkeypatch, debug, error):
    monkeypatch.setenv("DSSM_DEBUG", debug)
    with pytest.raises(type(error)):
        run_command("dssm train", raises(error))


def test_characters_outside_the_encoding_of_the_terminal_are_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    assert run_command("dssm train", lambda: sys.stdout.write("epoch 1 · été\n") and None) == 0
    sys.stdout.flush()
    assert raw.getvalue() == b"epoch 1 \\xb7 \\xe9t\\xe9\n"


COMMAND = """
import gc, sys, time
from dssm_tf.common.command_runner import run_command

def lose_the_interrupt(*_):
    try:  # as TensorFlow's destructors do
        print("started", flush=True)
        time.sleep(60)
    except:
        print("lost", flush=True)

class Graph:
    def __del__(self):
        lose_the_interrupt()

def become_another_error():
    try:
        print("started", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        raise ZeroDivisionError from None

def work():
    {work}

sys.exit(run_command("dssm train", work))
"""
INTERRUPTED = "dssm train: interrupted; run the same command again to resume or start over\n"


@contextmanager
def command(work):
    """Starts a command in another process and waits for its first line."""
    code = [sys.executable, "-c", COMMAND.format(work=work)]
    with subprocess.Popen(
        code, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout.readline() == "started\n"
            yield process
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize(
    "work", ["print('started', flush=True); time.sleep(60)", "become_another_error()"]
)
def test_ctrl_c_ends_a_command_with_one_line_even_if_another_error_replaces_it(work):
    with command(work) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (1, INTERRUPTED)


@pytest.mark.long
@pytest.mark.parametrize("lose", ["Graph()", "gc.callbacks.append(lose_the_interrupt)"])
def test_a_second_ctrl_c_ends_a_command_that_lost_the_first(lose):
    with command(f"{lose}; gc.collect(); time.sleep(60)") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "lost\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == -signal.SIGINT


@pytest.fixture
def python_handler():
    """Python's handler of Ctrl-C, also if this process runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_command_restores_the_signal_handler_of_python(capsys, python_handler):
    def run():
        signal.raise_signal(signal.SIGINT)

    assert run_command("dssm train", run) == 1
    assert capsys.readouterr().err == INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is python_handler


def test_an_error_line_with_a_text_of_a_megabyte_keeps_its_start_and_its_end():
    line = error_line(UserError(f"the title {'x' * 10**6} is empty. Write one."))
    assert line is not None
    assert (line[:13], line[-21:], len(line)) == (
        "the title xxx",
        " is empty. Write one.",
        3005,
    )


def test_a_failed_copy_of_several_files_is_the_reason_of_the_first():
    error = shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'"), ("c", "d", "x")])
    assert error_line(error) == "[Errno 28] No space left on device: 'b'"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_without_standard_streams_writes_no_messages_into_its_files(tmp_path, closed):
    program = """
import os, subprocess, sys
from dssm_tf.common.command_runner import run_command

def run():
    with open(sys.argv[1], "w") as file:
        print("to standard output", flush=True)
        print("to standard error", file=sys.stderr, flush=True)
        for number in (1, 2):
            os.write(number, b"from C")
        subprocess.run(["sh", "-c", "echo from a child; echo from a child >&2"], check=True)
        file.write("only this")

sys.exit(run_command("dssm train", run))
"""
    command = f'exec "$@" {closed}'
    path = tmp_path / "file.txt"
    done = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-c", program, str(path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert path.read_text("utf-8") == "only this"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["search", "--help"]])
def test_help_on_a_full_disk_is_one_line(arguments):
    program = "import sys; from dssm_tf.cli import main; sys.exit(main(sys.argv[1:]))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"dssm( search)?: \[Errno 28\] No space left on device\n", done.stderr)
