"""A command is a typed function: its signature is the flags, its docstring the help."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from dssm_tf.common.boundary import run_command
from dssm_tf.common.errors import UserError

Function = Callable[..., Any]
_HELP = {"--help", "-h"}


def run(name: str, command: Function | Mapping[str, Function], words: Sequence[str] | None) -> int:
    """Runs a function, or one of several by name, with the words of a command line.

    A parameter is a flag, with a hyphen or an underscore: `min_clicks` is `--min-clicks`. Its type
    is what the flag takes, and the docstring's `Args:` its help.

    Args:
        name: what the person typed before `words`.
        command: keyword-only parameters are flags, others are positional.
        words: what was typed; those of the process when None.

    Returns:
        0 done, 1 failed, 2 wrong usage; the reason is one line on standard error.
    """
    words = sys.argv[1:] if words is None else words
    if isinstance(command, Mapping) and words and words[0] in command:
        return run(f"{name} {words[0]}", command[words[0]], words[1:])
    app = App(
        name=name,
        help_format="markdown",
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=_shown),
    )
    app["--help"].show = False
    if isinstance(command, Mapping):
        for word, function in command.items():
            app.command(function, name=word)
    else:
        app.default(command)
    if _HELP.intersection(words):  # before the flags, which take as long again to resolve
        return run_command(name, lambda: app.help_print([]))
    try:
        function, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, UserError) as error:
        reason = _reason(error)
        typed = [word.partition("=")[0] for word in words]
        if near := get_close_matches(reason.removesuffix(" is required."), typed, n=1, cutoff=0.8):
            reason += f" Is {near[0]} a typing error?"
        sys.stderr.write(f"{name}: {reason} (`{name} --help` shows all flags.)\n")
        return 2
    return run_command(name, lambda: function(*bound.args, **bound.kwargs))


def _shown(default: Any) -> Any:
    """A default as help shows it; nothing where there is nothing to say."""
    return None if default is False or default in (None, "", ()) else default


def _reason(error: Exception) -> str:
    if errors := getattr(error.__cause__, "errors", None):  # of pydantic
        first = errors()[0]
        name = str(first["loc"][-1]).replace("_", "-")
        if first["type"] == "missing":
            return f"--{name} is required."
        return f"--{name} is {first['input']!r}; {first['msg'].lower()}."
    reason = " ".join(str(error).split())
    return reason.removeprefix("Parameter ").replace("requires an argument", "is required")
