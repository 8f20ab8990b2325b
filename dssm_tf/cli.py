"""The `dssm` program: runs a command and reports errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dssm_tf import __version__
from dssm_tf.commands import COMMANDS, load_command
from dssm_tf.common.command_runner import INTERRUPTED, open_closed_streams, run_command
from dssm_tf.common.errors import similar_name_hint

_TYPICAL_USE = """typical use:
  dssm preprocess --input clicks.tsv --corpus corpus.tsv --output DATA
  dssm train --config dssm --data DATA --out RUN
  dssm evaluate --model RUN --judgments judgments.tsv --corpus corpus.tsv --out EVALUATION
  dssm export --model RUN --out EXPORT
  dssm search --model RUN --corpus corpus.tsv
  dssm serve EXPORT

try everything on bundled data:  dssm demo --out demo
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        The exit code: 0 for success, 1 for a failure with a one-line reason on standard error, 2
        for wrong usage, 3 if `dssm evaluate --fail-if-worse` finds a worse model.
    """
    open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    flags: list[str] = []
    while arguments[:1] == ["--quiet"] or arguments[:1] == ["--log-level"]:
        count = 1 if arguments[0] == "--quiet" else 2
        flags, arguments = [*flags, *arguments[:count]], arguments[count:]
    if arguments[:1] == ["--version"]:
        return run_command("dssm", lambda: sys.stdout.write(f"dssm-tf {__version__}\n"))
    if not arguments:
        sys.stderr.write(_help())
        return 2
    if arguments[0] in ("--help", "-h"):
        return run_command("dssm", lambda: sys.stdout.write(_help()))
    name, *arguments = arguments
    if name not in COMMANDS:
        suggestion = similar_name_hint(name, COMMANDS)
        sys.stderr.write(
            f"dssm: there is no command {name!r}.{suggestion} (`dssm --help` lists them.)\n"
        )
        return 2
    try:
        from dssm_tf.common.command_line import run

        command = load_command(name)
    except KeyboardInterrupt:  # importing a command can take seconds
        sys.stderr.write(f"dssm {name}: {INTERRUPTED}\n")
        return 1
    return run(f"dssm {name}", command, [*flags, *arguments])


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: dssm COMMAND ...\n",
            "Train a semantic ranker on search click logs, and serve it.\n",
            *(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()),
            "\n`dssm COMMAND --help` lists the flags of a command. All commands have --quiet and",
            "--log-level. `dssm completion SHELL` prints completions for bash, zsh or fish.",
            "Ctrl-C stops a command; a second Ctrl-C ends the process at once.\n",
            _TYPICAL_USE,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
