"""The `dssm` command: finds the command asked for, runs it, says in one line what went wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from dssm_tf import __version__
from dssm_tf.commands import (
    benchmark,
    curves,
    data,
    demo,
    embed,
    evaluate,
    experiment,
    explain,
    export,
    index,
    mine,
    preprocess,
    report,
    search,
    serve,
    skip_thought,
    teach,
    train,
    tune,
)
from dssm_tf.common.boundary import run_command
from dssm_tf.common.command_line import Parser
from dssm_tf.common.errors import UserError
from dssm_tf.common.quiet import quieten

COMMANDS = (
    preprocess,
    train,
    mine,
    teach,
    tune,
    evaluate,
    benchmark,
    export,
    embed,
    index,
    search,
    serve,
    demo,
    skip_thought,
    data,
    experiment,
    explain,
    report,
    curves,
)

_EXAMPLES = """the usual way:
  dssm preprocess --input clicks.tsv --corpus corpus.tsv --output DATA
  dssm train --config lstm --data DATA --out RUN
  dssm evaluate --model RUN --judgments judgments.tsv --corpus corpus.tsv --out EVALUATION
  dssm export --model RUN --out EXPORT
  dssm search --model RUN --corpus corpus.tsv
  dssm serve EXPORT

see it all at once on bundled data:  dssm demo --out demo
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        0 done, 1 failed with a one-line reason on standard error, 2 wrong usage.
    """
    quieten()
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == [preprocess.NAME]:  # a flag that is unknown here is Beam's
        arguments = argparse.Namespace(
            command=preprocess.NAME, run=lambda _: preprocess.run(words[1:])
        )
    else:
        arguments = _parser().parse_args(words)

    def run() -> object:
        try:
            return arguments.run(arguments)
        except ImportError as error:
            if not (reason := _hidden(error)):
                raise
            raise UserError(reason) from None

    left = getattr(arguments, "interrupted", "nothing was written")
    return run_command(f"dssm {arguments.command}", run, left)


def _hidden(error: ImportError) -> str:
    """What happened where a package of ours was not found but another's of its name; else empty."""
    name = (error.name or "").partition(".")[0]
    spec = find_spec(name) if name in ("pipelines", "serving") else None
    if spec is None:
        return ""
    found = Path([*(spec.submodule_search_locations or []), spec.origin or ""][0])
    if found == Path(__file__).parents[1] / name:
        return ""
    return (
        f"{found} hides the package `{name}` that comes with dssm-tf; run `dssm` itself instead of "
        "`python -m`, take that folder out of PYTHONPATH, or give it another name."
    )


def _parser() -> Parser:
    parser = Parser(
        prog="dssm",
        description="From search click logs to a semantic ranker in production.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"dssm-tf {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
