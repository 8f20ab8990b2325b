"""The exceptions that reach a person at the terminal, and what their messages share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """What was received, what was expected and how to mend it, in one line.

    The command line prints it without a traceback and exits with 1.
    """


class NoClicks(UserError):
    """A system that learns from clicks alone got none to learn from."""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The end of a message about a word that is unknown: the known one it may be a typo of.

    >>> did_you_mean("lstn", ["dssm", "lstm"]), did_you_mean("xyz", ["dssm"])
    (" Did you mean 'lstm'?", '')
    """
    known, word = list(known), str(word)
    near = get_close_matches(word, known, n=1, cutoff=0.7)
    near = near or [one for one in known if word and one.startswith(word)]
    return f" Did you mean {near[0]!r}?" if near else ""


def check_name(what: str, name: str, known: Iterable[str]) -> None:
    """Raises UserError if a name is not among those that are known, which it lists."""
    known = list(known)
    if name not in known:
        raise UserError(
            f"there is no {what} {name!r}; choose from {', '.join(known)}."
            f"{did_you_mean(name, known)}"
        )


def install(extra: str) -> str:
    """The command that installs an extra for this Python; there is no package to download."""
    return f"{shlex.quote(sys.executable)} -m pip install '.[{extra}]' in a checkout of dssm-tf"
