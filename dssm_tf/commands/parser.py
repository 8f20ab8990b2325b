"""How a command is added to `dssm`: the same few lines for each."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from dssm_tf.common.command_line import Parser

Commands = argparse._SubParsersAction  # argparse has no public name for it


def command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], object],
    summary: str,
    details: str = "",
    interrupted: str = "nothing was written",
) -> Parser:
    """Adds a command.

    Args:
        commands: of the parser.
        name: what is typed.
        run: gets the parsed flags.
        summary: one line of help.
        details: more of it.
        interrupted: what is left after Ctrl-C.
    """
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ("" if not details else ". " + details),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.set_defaults(run=run, interrupted=interrupted)
    return parser
