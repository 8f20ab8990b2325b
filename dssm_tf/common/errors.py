"""Exceptions whose message is shown to users, and helpers for such messages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """An error that the user can fix.

    The message is one line: what was received, what was expected, and how to fix it. The command
    line prints it without a traceback and exits with `exit_code`.
    """

    exit_code = 1


class NoClicksError(UserError):
    """A system that learns from clicks only was given no clicks."""


def similar_name_hint(word: object, known: Iterable[str]) -> str:
    """A suggestion to append to an error about an unknown word; empty if no known word is similar.

    >>> similar_name_hint("lstn", ["dssm", "lstm"]), similar_name_hint("xyz", ["dssm"])
    (" Did you mean 'lstm'?", '')
    """
    known, word = list(known), str(word)
    similar = get_close_matches(word, known, n=1, cutoff=0.7)
    similar = similar or [name for name in known if word and name.startswith(word)]
    return f" Did you mean {similar[0]!r}?" if similar else ""


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Raises UserError if a name is unknown. The message lists the known names.

    Args:
        kind: the kind of the named object, such as "system".
        name: the name to check.
        known: the valid names.
    """
    known = list(known)
    if name not in known:
        raise UserError(
            f"there is no {kind} {name!r}; choose from {', '.join(known)}."
            f"{similar_name_hint(name, known)}"
        )


def install_command(extra: str) -> str:
    """The command that installs an extra from a checkout; the package is not published."""
    return f"{shlex.quote(sys.executable)} -m pip install '.[{extra}]' in a checkout of dssm-tf"
