"""Runs a pipeline on the Beam runner of a name: offline, in silence, and failing in one line."""

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
from dssm_tf.common.errors import UserError, did_you_mean
from pipelines.beam_log import BEAM_LOG

LOCAL_RUNNERS = ("DirectRunner", "FnApiRunner")
"""On this machine, in processes of ours."""
MANY_BYTES = 50 << 20
"""Of input, from which on worker processes are worth the seconds in which they start."""
_THREADS_END = 1.0  # seconds
# What a person can mend, in the traceback that Beam makes of what a worker raised.
_FROM_WORKER = re.compile(
    r"(?:(?:User|Option)Error: |(?:Error|Exception): (?=\[Errno \d))(.*?)(?: \[while running|\n|$)"
)


def prepare(flags: Sequence[str], paths: Sequence[str]) -> None:
    """Gives Beam's file systems their flags.

    Args:
        flags: Beam's own.
        paths: that are to be read or written.

    Raises:
        UserError: one is of S3, without credentials; Beam would try again for minutes.
    """
    options = S3Options([*flags])
    FileSystems.set_options(options)
    stored = [path for path in paths if path.startswith("s3://")]
    if stored and boto3 and not (options.s3_access_key_id or boto3.Session().get_credentials()):
        raise UserError(
            f"{stored[0]}: there are no credentials for S3; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
        )


def run(
    add_steps: Callable[[beam.Pipeline], None],
    name: str,
    flags: Sequence[str],
    known: Sequence[str],
    *,
    size: int = 0,
) -> None:
    """Runs a pipeline to its end.

    Beam's DirectRunner hands a pipeline to Prism, which it downloads; a local run must not need
    the network, so it gets the runner that DirectRunner otherwise falls back to, FnApiRunner.
    Every other runner is passed through as it is.

    Args:
        add_steps: to the pipeline.
        name: of the runner, as `--runner` has it.
        flags: Beam's own. A local run that has much to do gets a worker a core unless they say how
            it runs.
        known: flags that are not Beam's, of which an unknown one may be a typo.
        size: bytes of input.

    Raises:
        UserError: what a worker met that a person can mend; there is no such runner, or it cannot
            be used; a flag has a bad value or, for a local run, is unknown. Other runners may bring
            flags of their own.
    """
    local, flags = name in LOCAL_RUNNERS, [*flags]
    if local and (unknown := _unknown_flags(flags)):
        typed = unknown[0].partition("=")[0]
        raise UserError(f"Neither this command nor Beam has {typed}.{did_you_mean(typed, known)}")
    if not local:
        flags.append(f"--runner={name}")
    elif size > MANY_BYTES and not any(one.startswith("--direct_") for one in flags):
        flags += ["--direct_running_mode=multi_processing", "--direct_num_workers=0"]
    options = PipelineOptions(flags)
    with ExitStack() as stack:
        # The log is the engine's; a LOOPBACK worker prints what it raises.
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
        except Exception as error:  # Beam's word for whatever a worker raised
            if found := _FROM_WORKER.search(f"{type(error).__name__}: {error}"):
                raise UserError(found[1].strip()) from error
            if local:
                raise
            said = error.details() if isinstance(error, grpc.Call) else str(error)
            reason = " ".join((said or "").split())
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
    """Drops what the threads of a block raise, as those of a LOOPBACK worker do when it ends.

    They may raise after the block, so they get a moment to end.
    """
    others, show = set(threading.enumerate()), threading.excepthook

    def show_others(error: threading.ExceptHookArgs) -> None:
        if error.thread in others:
            show(error)

    threading.excepthook = show_others
    try:
        yield
    finally:
        end = time.monotonic() + _THREADS_END
        for thread in set(threading.enumerate()) - others:
            thread.join(max(end - time.monotonic(), 0))
        threading.excepthook = show


class _Flags(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def _unknown_flags(flags: Sequence[str]) -> list[str]:
    """What none of Beam's option classes takes; Beam itself drops it with a warning."""
    parser = _Flags(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser.parse_known_args(list(flags))[1]


def _local_runner(options: PipelineOptions) -> Any:
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
        # Processes of ours instead of the runner's own choice, which logs to the terminal.
        direct.direct_running_mode = "in_memory"
        environment = environments.SubprocessSDKEnvironment.from_command_string(_worker())
    return fn_runner.FnApiRunner(default_environment=environment, provision_info=provision)


def _worker() -> str:
    """The shell command that starts a worker with this Python and this package."""
    root = str(Path(pipelines.__file__).resolve().parents[1])
    code = (
        f"import logging, sys; sys.path.insert(0, {root!r}); "
        "from pipelines.beam_log import load_beam; load_beam(); "
        f"logging.getLogger({BEAM_LOG.name!r}).setLevel({BEAM_LOG.level}); "
        "from apache_beam.runners.worker.sdk_worker_main import main; main([])"
    )
    # There is a worker a core.
    return f"POLARS_MAX_THREADS=1 {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
