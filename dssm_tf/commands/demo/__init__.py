"""`dssm demo`: click log to served ranker on bundled questions."""

from __future__ import annotations

import argparse
from pathlib import Path

from dssm_tf.commands.parser import Commands, command
from dssm_tf.common.quiet import load_tensorflow


def add(commands: Commands) -> None:
    """Adds the command to the parser."""

    def run(arguments: argparse.Namespace) -> None:
        load_tensorflow()
        from dssm_tf.commands.demo.demo import demo

        demo(arguments.out)

    parser = command(
        commands,
        "demo",
        run,
        "click log to served ranker on bundled questions, start to finish",
        "Preprocesses WebQuestions, trains dssm and lstm, evaluates them against BM25, exports, "
        "searches, and writes one HTML page.",
        "the same command starts again",
    )
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="directory to write")
