"""The `dssm` program: runs a command and reports errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dssm_tf import __version__
from dssm_tf.commands import load_command
from dssm_tf.common.command_runner import run_command
from dssm_tf.common.errors import did_you_mean
from dssm_tf.common.quiet import quieten

COMMANDS = {
    "preprocess": "turn a click log into training records",
    "train": "train a model on preprocessed clicks",
    "evaluate": "rank judged queries and measure NDCG, MRR, recall",
    "benchmark": "compare systems on your own click log",
    "interleave": "tell which of two rankings users clicked more, online",
    "tune": "search for the best settings",
    "mine": "find hard negatives to train on",
    "teach": "write a larger model's scores for a small model to learn",
    "export": "write a model for TensorFlow Serving, NumPy, or a search engine",
    "documents": "add a model's fields to the documents of a search engine",
    "embed": "write the vectors of titles or queries",
    "index": "index a corpus for search",
    "search": "search a corpus",
    "serve": "answer requests over gRPC and REST, with a search page",
    "explain": "explain why a title matches a query",
    "report": "write a page about a run",
    "data": "list, convert, split and check data sets",
    "demo": "try everything on bundled data",
}
"""The commands and their purpose. `dssm_tf.commands` has a module for each."""

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
        for wrong usage.
    """
    quieten()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--version"]:
        return run_command("dssm", lambda: sys.stdout.write(f"dssm-tf {__version__}\n"))
    if not arguments:
        sys.stderr.write(_help())
        return 2
    if arguments[0] in ("--help", "-h"):
        return run_command("dssm", lambda: sys.stdout.write(_help()))
    name, *arguments = arguments
    if name not in COMMANDS:
        suggestion = did_you_mean(name, COMMANDS)
        sys.stderr.write(
            f"dssm: there is no command {name!r}.{suggestion} (`dssm --help` lists them.)\n"
        )
        return 2
    from dssm_tf.common.command_line import run

    return run(f"dssm {name}", load_command(name), arguments)


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        [
            "usage: dssm COMMAND ...\n",
            "Train a semantic ranker on search click logs, and serve it.\n",
            *(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items()),
            "\n`dssm COMMAND --help` lists the flags of a command.",
            "Ctrl-C stops a command; a second Ctrl-C ends the process at once.\n",
            _TYPICAL_USE,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
