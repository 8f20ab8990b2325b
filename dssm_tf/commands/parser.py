"""How a command is added to `dssm`: the same few lines for each."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

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
    )
    parser.set_defaults(run=run, interrupted=interrupted)
    return parser


def add_encoding(parser: argparse._ActionsContainer) -> None:
    """Adds the flag of commands that read people's tables."""
    parser.add_argument(
        "--encoding", default="utf-8", help="of the text of the files, such as cp1252 or utf-16"
    )


def add_title_fields(parser: argparse._ActionsContainer) -> None:
    """Adds the flag of commands that read titles from people's tables; `parse_fields` reads it."""
    parser.add_argument(
        "--title-fields",
        default="title",
        metavar="COLUMNS",
        help="columns that a title is made of, with commas between, as preprocess had them",
    )


def fields_flag(fields: Sequence[str]) -> str:
    """The flag of `add_title_fields` for a command that is to be typed next; `""` by default.

    >>> fields_flag(("name", "brand")), fields_flag(("title",))
    (' --title-fields name,brand', '')
    """
    return "" if tuple(fields) == ("title",) else f" --title-fields {','.join(fields)}"


def add_thousands(parser: argparse._ActionsContainer) -> None:
    """Adds the flag of commands that read clicks."""
    parser.add_argument(
        "--thousands",
        default="",
        metavar="SIGN",
        help="sign between the thousands of clicks, such as , in 67,998",
    )


def add_log_flags(parser: argparse._ActionsContainer) -> None:
    """Adds the flags of commands that read click logs; `--clicks` names the files."""
    parser.add_argument(
        "--clicks",
        required=True,
        nargs="+",
        metavar="FILE",
        help="click logs: TSV, CSV, JSONL or Parquet files, globs or directories",
    )
    add_encoding(parser)
    add_title_fields(parser)
    add_thousands(parser)
    parser.add_argument(
        "--time-format",
        metavar="FORMAT",
        help="of time stamps that are neither ISO 8601 nor a time since 1970, as Python's strptime "
        "takes it, such as '%%d/%%m/%%Y %%H:%%M'",
    )
    parser.add_argument(
        "--max-reject-fraction",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="fail when more of the rows, or of the clicks, is malformed",
    )
