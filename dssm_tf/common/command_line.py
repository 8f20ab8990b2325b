"""Turns a typed function into a command: flags from its signature, help from its docstring."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from cyclopts import App, CycloptsError, Parameter

from dssm_tf.common.command_runner import run_command
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import store_url
from dssm_tf.common.tensorflow_log import quieten
from dssm_tf.common.terminal import output_of_level

Function = Callable[..., Any]
_HELP = {"--help", "-h"}
LOG_LEVELS = ("debug", "info", "warning", "error")
"""Values of `--log-level`. Progress and summaries are printed at `info` and `debug`."""
_OUTPUT_FLAGS = """
Every command also has `--quiet`, which prints results, warnings and errors only, and
`--log-level debug|info|warning|error`: `debug` adds the messages of TensorFlow and Beam, and
tracebacks; `info` is the default; `warning` is `--quiet`; `error` prints no warnings either.
"""


def run(
    name: str, command: Function | Mapping[str, Function], arguments: Sequence[str] | None
) -> int:
    """Runs a function with the arguments of a command line.

    A keyword-only parameter becomes a flag: `min_clicks` is `--min-clicks` or `--min_clicks`. Other
    parameters are positional. The value is parsed and checked by the type of the parameter. `Args:`
    in the docstring becomes the help.

    Args:
        name: the command, and subcommand if any, as the user typed it.
        command: a function; or the functions of the subcommands, by name.
        arguments: the arguments; None for those of the process.

    Returns:
        The exit code: 0 on success, 2 on wrong usage, otherwise see `run_command`. The reason is
        one line on standard error.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        level, arguments = output_level(arguments)
    except UserError as error:
        sys.stderr.write(f"{name}: {error} (`{name} --help` shows all flags.)\n")
        return 2
    if level is not None:
        with output_of_level(level):
            return run(name, command, arguments)
    quieten()
    if isinstance(command, Mapping) and arguments and arguments[0] in command:
        return run(f"{name} {arguments[0]}", command[arguments[0]], arguments[1:])
    app = _app(name, command)
    if _HELP.intersection(arguments):  # not parsed, which would take twice as long
        return run_command(name, lambda: app.help_print([]))
    try:
        function, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
    except (CycloptsError, UserError) as error:
        reason = _reason(error)
        flags_in_reason = re.findall(r"--[\w-]+", reason)
        typed_flags = [argument.partition("=")[0] for argument in arguments]
        other_flags = [flag for flag in typed_flags if flag not in flags_in_reason]
        for flag in flags_in_reason:
            if similar := get_close_matches(flag, other_flags, n=1, cutoff=0.8):
                reason += f" Did you mean {flag} instead of {similar[0]}?"
                break
        sys.stderr.write(f"{name}: {reason} (`{name} --help` shows all flags.)\n")
        return 2
    for value in bound.arguments.values():
        for path in value if isinstance(value, tuple | list) else [value]:
            if isinstance(path, Path) and (store := store_url(path)):
                sys.stderr.write(f"{name}: {store} is not a local path; copy it to this machine.\n")
                return 2
    return run_command(name, lambda: function(*bound.args, **bound.kwargs))


def _app(name: str, command: Function | Mapping[str, Function]) -> App:
    """The parser of a command; see `run`."""
    app = App(
        name=name,
        help_format="markdown",
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=_default_in_help),
        help_epilogue=_OUTPUT_FLAGS,
    )
    app["--help"].show = False
    if isinstance(command, Mapping):
        for subcommand, function in command.items():
            app.command(function, name=subcommand)
    else:
        app.default(command)
    return app


def completion_script(
    program: str,
    commands: Mapping[str, Function | Mapping[str, Function]],
    shell: Literal["bash", "zsh", "fish"],
) -> str:
    """Returns a shell script that completes the commands and flags of a program.

    Args:
        program: name of the program.
        commands: its commands by name; see `command` of `run`.
        shell: the shell.
    """
    app = App(name=program, version_flags=(), default_parameter=Parameter(negative=()))

    @app.default
    def without_command(
        *, quiet: bool = False, log_level: Literal["debug", "info", "warning", "error"] = "info"
    ) -> None:
        """Flags before a command."""

    for name, command in commands.items():
        app.command(_app(name, command))
    return app.generate_completion(prog_name=program, shell=shell)


def output_level(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Separates `--quiet` and `--log-level` from the other arguments.

    Returns:
        The level, one of `LOG_LEVELS`, or None without these flags; and the other arguments.

    Raises:
        UserError: the value of `--log-level` is not in `LOG_LEVELS`.
    """
    level, others = None, []
    rest = iter(arguments)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        if argument == "--":
            others += [argument, *rest]
        elif argument == "--quiet":
            level = "warning"
        elif flag.replace("_", "-") == "--log-level":
            level = value if equals else next(rest, "")
            if level not in LOG_LEVELS:
                raise UserError(f"--log-level is {level!r}; expected {', '.join(LOG_LEVELS)}.")
        else:
            others.append(argument)
    return level, others


def _default_in_help(default: Any) -> Any:
    """The default to show in the help; None to show none."""
    return None if default is False or default in (None, "", ()) else default


def _reason(error: Exception) -> str:
    """The first problem of the command line, in one line."""
    if errors := getattr(error.__cause__, "errors", None):  # the cause is a ValidationError
        first = errors()[0]
        name = str(first["loc"][-1]).replace("_", "-")
        if first["type"] == "missing":
            return f"--{name} is required."
        return f"--{name} is {first['input']!r}; {first['msg'].lower()}."
    reason = " ".join(str(error).split())
    return reason.removeprefix("Parameter ").replace("requires an argument", "is required")
