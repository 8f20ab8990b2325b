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
) -> Parser:
    """Adds a command with one line of help, more of it below, and the function that runs it."""
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ("" if not details else ". " + details),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser
