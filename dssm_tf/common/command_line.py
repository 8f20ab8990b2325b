"""A parser of flags that takes both spellings and says what a typo may have meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from dssm_tf.common.errors import did_you_mean


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help that says which flags are required, and the defaults of those that have one.

    A text of several lines stays as it is.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.required and action.option_strings:
            return f"{action.help} (required)"
        if action.default in (None, (), [], "") or action.default is False:
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Flags that a person types.

    `--min_clicks` is `--min-clicks`. A flag that is unknown, or cut short, is an error that says
    which one may have been meant, below the command's usage in one line.

    Args:
        passes_on: whether flags that are unknown here are another's, which `parse_known_args`
            then returns as they were typed.
        options: of `argparse.ArgumentParser`.
    """

    def __init__(self, *, passes_on: bool = False, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": Help, **options})
        self._passes_on = passes_on

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """What the flags say, and what is another's.

        Raises:
            SystemExit: with code 2, on wrong usage.
        """
        words = self._spelled(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(words, namespace)
        if rest and not self._passes_on:
            self.error(f"unexpected {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, below the usage in one line.

        Raises:
            SystemExit: with code 2.
        """
        wanted = [one for one in self._actions if one.required and one.nargs != "*"]
        usage = " ".join(["usage:", self.prog, *map(_usage, wanted), "..."])
        self.exit(2, f"{usage}\n{self.prog}: {message} (`{self.prog} --help` shows all flags.)\n")

    def flags(self) -> list[str]:
        """All flags, as they are documented."""
        return [name for one in self._actions for name in one.option_strings]

    def _spelled(self, words: Sequence[str]) -> list[str]:
        """The words with flags as they are documented; refuses unknown ones."""
        known = {_plain(name): name for name in self.flags() if name.startswith("--")}
        spelled = list(words)
        for place, word in enumerate(spelled):
            name, equals, value = word.partition("=")
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                break  # what follows is no flag, or of the command that is named here
            if not word.startswith("--") or " " in name:
                continue
            if flag := known.get(_plain(name)):
                spelled[place] = f"{flag}{equals}{value}"
            elif not self._passes_on:
                self.error(f"there is no {name}.{did_you_mean(name, known.values())}")
        return spelled

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is not None and value not in choices:
            raise argparse.ArgumentError(
                action,
                f"{value!r} is none of {', '.join(map(str, choices))}."
                f"{did_you_mean(value, map(str, choices))}",
            )


def _usage(wanted: argparse.Action) -> str:
    value = wanted.metavar or wanted.dest.upper()
    return " ".join([*wanted.option_strings[-1:], str(value), *["..."] * (wanted.nargs == "+")])


def _plain(flag: str) -> str:
    return flag.replace("_", "-")
