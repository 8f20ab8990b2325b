"""Runs a pipeline on any Beam runner: offline if local, without logs, with one-line errors."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import apache_beam as beam
import grpc
from apache_beam.io.aws.clients.s3.boto3_client import boto3
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    PortableOptions,
    S3Options,
)
from apache_beam.runners.runner import PipelineState, create_runner

import pipelines
from dssm_tf.common.errors import UserError, similar_name_hint
from pipelines.beam_log import BEAM_LOG

LOCAL_RUNNERS = ("DirectRunner", "FnApiRunner")
"""Runners on this machine, in processes that this module starts."""
MAX_THREADED_BYTES = 50 << 20
"""Maximum bytes of input that are read without worker processes, which take seconds to start."""
_THREAD_TIMEOUT = 1.0  # seconds
# An error that a user can fix, in the text of a worker's traceback.
_USER_ERROR = re.compile(
    r"(?:(?:User|Option)Error: |(?:Error|Exception): (?=\[Errno \d))(.*?)(?: \[while running|\n|$)"
)


def prepare(flags: Sequence[str], paths: Sequence[str]) -> None:
    """Configures Beam's file systems.

    Args:
        flags: flags for Beam.
        paths: paths to read or write.

    Raises:
        UserError: a path is on S3 and there are no credentials; Beam would retry for minutes.
    """
    options = S3Options([*flags])
    FileSystems.set_options(options)
    s3_paths = [path for path in paths if path.startswith("s3://")]
    if s3_paths and boto3 and not (options.s3_access_key_id or boto3.Session().get_credentials()):
        raise UserError(
            f"{s3_paths[0]}: there are no credentials for S3; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        )


def run(
    add_steps: Callable[[beam.Pipeline], None],
    name: str,
    flags: Sequence[str],
    known_flags: Sequence[str],
    *,
    size: int = 0,
) -> None:
    """Runs a pipeline to its end.

    Beam's DirectRunner uses Prism, which it downloads. A local run must not need the network, so
    it uses FnApiRunner, the fallback of DirectRunner. All other runners are used as they are.

    Args:
        add_steps: adds the steps to a pipeline.
        name: name of the runner, as in `--runner`.
        flags: flags for Beam. A large local run gets one worker per core, unless a flag starts with
            `--direct_`.
        known_flags: flags of this command, suggested for an unknown flag.
        size: bytes of input.

    Raises:
        UserError: a worker raised an error that a user can fix; the runner does not exist or cannot
            be used; a flag has a bad value or, for a local run, is unknown. Other runners may
            define further flags.
    """
    local, flags = name in LOCAL_RUNNERS, [*flags]
    if local and (unknown := _unknown_flags(flags)):
        flag = unknown[0].partition("=")[0]
        raise UserError(
            f"Neither this command nor Beam has the flag {flag}."
            f"{similar_name_hint(flag, known_flags)}"
        )
    if not local:
        flags.append(f"--runner={name}")
    elif size > MAX_THREADED_BYTES and not any(flag.startswith("--direct_") for flag in flags):
        flags += ["--direct_running_mode=multi_processing", "--direct_num_workers=0"]
    options = PipelineOptions(flags)
    with ExitStack() as stack:
        # Other engines have their own log, and a LOOPBACK worker would print its exceptions.
        if not (local or os.environ.get("DSSM_DEBUG")):
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.ERROR)
            stack.enter_context(redirect_stderr(StringIO()))
            stack.enter_context(_quiet_threads())
        try:
            runner = _local_runner(options) if local else create_runner(name)
            pipeline = beam.Pipeline(runner=runner, options=options)
            add_steps(pipeline)
            state = pipeline.run().wait_until_finish()
        except Exception as error:  # Beam wraps all exceptions of workers
            if user_error := _USER_ERROR.search(f"{type(error).__name__}: {error}"):
                raise UserError(user_error[1].strip()) from error
            if local:
                raise
            message = error.details() if isinstance(error, grpc.Call) else str(error)
            reason = " ".join((message or "").split())
            if isinstance(error, (grpc.RpcError, grpc.FutureTimeoutError)):
                server = options.view_as(PortableOptions).job_endpoint
                reason = (
                    f"the job server {server} does not answer; start it or see its log, or "
                    f"correct --job_endpoint. {reason}"
                )
            raise UserError(f"--runner {name}: {reason:.500}".rstrip()) from error
    if state not in (PipelineState.DONE, None):
        raise UserError(f"The pipeline ended as {state}; see the runner's log.")


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """Hides exceptions of threads that start in the block, such as those of a LOOPBACK worker.

    They may raise after the block, so its end waits up to `_THREAD_TIMEOUT` for them.
    """
    earlier_threads, excepthook = set(threading.enumerate()), threading.excepthook

    def hide_new_threads(error: threading.ExceptHookArgs) -> None:
        if error.thread in earlier_threads:
            excepthook(error)

    threading.excepthook = hide_new_threads
    try:
        yield
    finally:
        end = time.monotonic() + _THREAD_TIMEOUT
        for thread in set(threading.enumerate()) - earlier_threads:
            thread.join(max(end - time.monotonic(), 0))
        threading.excepthook = excepthook


class _Flags(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def _unknown_flags(flags: Sequence[str]) -> list[str]:
    """Flags that none of Beam's option classes defines; Beam only warns about them."""
    parser = _Flags(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser.parse_known_args(list(flags))[1]


def _local_runner(options: PipelineOptions) -> Any:
    """A FnApiRunner, with worker processes if the options request them."""
    from apache_beam.portability.api import beam_provision_api_pb2
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.runners.portability.portable_runner import JobServiceHandle
    from apache_beam.transforms import environments

    provision = fn_runner.ExtendedProvisionInfo(
        beam_provision_api_pb2.ProvisionInfo(
            pipeline_options=JobServiceHandle.encode_pipeline_options(options.get_all_options())
        )
    )
    direct = options.view_as(DirectOptions)
    environment = None
    if direct.direct_running_mode == "multi_processing":
        # Workers of the runner's own command would log to the terminal.
        direct.direct_running_mode = "in_memory"
        environment = environments.SubprocessSDKEnvironment.from_command_string(_worker_command())
    return fn_runner.FnApiRunner(default_environment=environment, provision_info=provision)


def _worker_command() -> str:
    """The shell command that starts a worker with this Python and this package."""
    root = str(Path(pipelines.__file__).resolve().parents[1])
    code = (
        f"import logging, sys; sys.path.insert(0, {root!r}); "
        "from pipelines.beam_log import load_beam; load_beam(); "
        f"logging.getLogger({BEAM_LOG.name!r}).setLevel({BEAM_LOG.level}); "
        "from apache_beam.runners.worker.sdk_worker_main import main; main([])"
    )
    # There is one worker per core.
    return f"POLARS_MAX_THREADS=1 {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
