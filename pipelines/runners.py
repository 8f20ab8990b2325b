"""The Beam runner for a name, and what a local run needs to work offline and in silence."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions
from apache_beam.runners.runner import create_runner

from dssm_tf.common.errors import did_you_mean
from pipelines import local_worker
from pipelines.options import parser

LOCAL_RUNNERS = ("DirectRunner", "FnApiRunner")
MANY_BYTES = 50 << 20
"""Of input, from which on worker processes are worth the seconds in which they start."""


class BadFlag(ValueError):
    """A flag that Beam does not know, or a value that it does not accept."""


def choose_runner(
    name: str,
    flags: Sequence[str],
    *,
    verbose: bool = False,
    command: str = "preprocess",
    known: Sequence[str] = (),
) -> tuple[Any, PipelineOptions]:
    """A runner and its options, for `beam.Pipeline`.

    Beam's DirectRunner hands a pipeline to Prism, which it downloads; a local run must not need
    the network, so it gets the runner that DirectRunner otherwise falls back to, FnApiRunner.
    Every other runner is passed through as it is.

    Args:
        name: as `--runner` names it.
        flags: Beam's own.
        verbose: whether worker processes may write their log to the terminal.
        command: whose flags they are not.
        known: its flags; those of preprocess if empty.

    Raises:
        BadFlag: a flag has a bad value or, for a local run, is unknown. Other runners may bring
            flags of their own.
    """
    local = name in LOCAL_RUNNERS
    unknown = _unknown_flags(flags)
    if unknown and local:
        typed, ours = unknown[0].partition("=")[0], known or parser().flags()
        raise BadFlag(f"neither {command} nor Beam has {typed}.{did_you_mean(typed, ours)}")
    if not local:
        try:
            create_runner(name)
        except (AttributeError, ImportError, ValueError) as error:
            raise BadFlag(f"--runner {name}: {error}") from None
    options = PipelineOptions(flags=[*flags, *([] if local else [f"--runner={name}"])])
    options.view_as(SetupOptions).save_main_session = False
    return (_local_runner(options, verbose) if local else name), options


def with_workers(name: str, flags: Sequence[str], input_bytes: int) -> Sequence[str]:
    """Beam's flags, with those for a worker a core if a local run has much to do.

    Args:
        name: of the runner.
        flags: if they say how it runs, they stay as they are.
        input_bytes: that it reads.
    """
    small = name not in LOCAL_RUNNERS or input_bytes <= MANY_BYTES
    if small or any(one.startswith("--direct_") for one in flags):
        return flags
    return [*flags, "--direct_running_mode=multi_processing", "--direct_num_workers=0"]


class _Flags(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadFlag(message)


def _unknown_flags(flags: Sequence[str]) -> list[str]:
    """What none of Beam's option classes takes; Beam itself drops it with a warning."""
    parser = _Flags(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return parser.parse_known_args(list(flags))[1]


def _local_runner(options: PipelineOptions, verbose: bool) -> Any:
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
        environment = environments.SubprocessSDKEnvironment.from_command_string(
            local_worker.command(verbose=verbose)
        )
    return fn_runner.FnApiRunner(default_environment=environment, provision_info=provision)
