"""A command is a typed function: its signature is the flags, its docstring the help."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from shutil import get_terminal_size
from typing import Any

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter

from dssm_tf.common.boundary import run_command
from dssm_tf.common.errors import UserError

Function = Callable[..., Any]
_HELP = {"--help", "-h"}
_COLUMN = 22  # where the descriptions of flags begin


def run(
    name: str, command: Function | Mapping[str, Function], words: Sequence[str], interrupted: str
) -> int:
    """Runs a function, or one of several by name, with the words of a command line.

    A parameter is a flag, with a hyphen or an underscore: `min_clicks` is `--min-clicks`. Its type
    is what the flag takes, and the docstring's `Args:` its help.

    Args:
        name: what the person typed before `words`.
        command: keyword-only parameters are flags, others are positional.
        words: what was typed.
        interrupted: what is left after Ctrl-C, for the message.

    Returns:
        0 done, 1 failed, 2 wrong usage; the reason is one line on standard error.
    """
    if isinstance(command, Mapping) and words and words[0] in command:
        return run(f"{name} {words[0]}", command[words[0]], words[1:], interrupted)
    app = _app(name, command)
    if _HELP.intersection(words):
        return run_command(name, lambda: app.help_print([]))
    try:
        function, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, UserError) as error:
        sys.stderr.write(f"{name}: {_reason(error)} (`{name} --help` shows all flags.)\n")
        return 2
    return run_command(name, lambda: function(*bound.args, **bound.kwargs), interrupted)


def _app(name: str, command: Function | Mapping[str, Function]) -> App:
    app = App(
        name=name,
        help_format="plaintext",
        help_formatter=_Help(),
        help_flags=(),
        version_flags=(),
        default_parameter=Parameter(negative=(), show_default=_shown),
    )
    if isinstance(command, Mapping):
        for word, function in command.items():
            app.command(function, name=word)
    else:
        app.default(command)
    return app


def _shown(default: Any) -> Any:
    """A default as help shows it; nothing where there is nothing to say."""
    return None if default is False or default in (None, "", ()) else default


class _Help:
    """Help as plain text of the terminal's width, in cyclopts' protocol of a help formatter."""

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Prints the line of what must be given."""
        if usage:
            sys.stdout.write(f"usage: {_plain(usage).removeprefix('Usage: ')}\n\n")

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        """Prints the docstring: paragraphs wrapped, indented examples as they are."""
        for paragraph in filter(None, _plain(description).split("\n\n")):
            example = paragraph.startswith("    ")
            sys.stdout.write(f"{paragraph if example else _wrapped(paragraph, '')}\n\n")

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Prints a group of flags, or of sub-commands."""
        sys.stdout.write(f"{panel.title}:\n")
        for entry in panel.entries:
            label = " ".join(filter(None, [*entry.positive_names[:1], _value(entry)]))
            label = label or " ".join(entry.positional_label or ())
            text = _plain(entry.description).rstrip(".")
            text += " (required)" if entry.required else ""
            text += f" (default: {entry.default})" if entry.default not in (None, "") else ""
            first = f"  {label:<{_COLUMN - 2}}" if len(label) < _COLUMN - 3 else f"  {label}\n"
            start = "" if first.endswith(" ") else " " * _COLUMN
            wrapped = _wrapped(text, " " * _COLUMN).lstrip(" ")
            sys.stdout.write(f"{first}{start}{wrapped}\n")
        sys.stdout.write("\n")


def _value(entry: Any) -> str:
    """What stands for a flag's value; the choices where there are some."""
    return "|".join(entry.choices or ()) or str(getattr(entry, "metavar", None) or "")


def _plain(text: Any) -> str:
    """The letters of what cyclopts has rich print."""
    if isinstance(text, str) or text is None:
        return (text or "").strip("\n")
    from rich.console import Console

    letters = StringIO()
    Console(file=letters, width=10_000, color_system=None).print(text, highlight=False)
    return "\n".join(line.rstrip() for line in letters.getvalue().strip("\n").split("\n"))


def _wrapped(text: str, indent: str) -> str:
    width = min(100, get_terminal_size().columns)
    return textwrap.fill(
        " ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _reason(error: Exception) -> str:
    reason = " ".join(str(error).split())
    if isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens:
        missing = f"{error.argument.name} is required."
        return reason.replace(f"Parameter {error.argument.name} requires an argument.", missing)
    if errors := getattr(error.__cause__, "errors", None):  # of pydantic
        first = errors()[0]
        name = str(first["loc"][-1]).replace("_", "-")
        return f"--{name} is {first['input']!r}; {first['msg'].lower()}."
    return reason
