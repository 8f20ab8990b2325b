"""`dssm demo`: click log to served ranker on bundled questions."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.common.quiet import load_tensorflow


def demo(*, out: Path = Path("build/demo")) -> None:
    """Try everything on bundled data, from a click log to a served ranker.

    Preprocesses WebQuestions, trains dssm and lstm, evaluates them against BM25, exports, searches,
    and writes one HTML page.

        dssm demo --out demo

    Args:
        out: directory to write; what an earlier demo wrote there is replaced.

    Raises:
        UserError: `out` holds something else.
    """
    load_tensorflow()
    from dssm_tf.commands.demo.steps import run

    run(out)
