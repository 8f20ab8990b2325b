"""Runs `dssm data run` with `queries.tsv` and `query.json` of the working directory."""

from __future__ import annotations

from typing import Any

import pytest

from dssm_tf.cli import main


def run_command(
    capsys: pytest.CaptureFixture[str], engine: str, index: str, *flags: str
) -> tuple[int, Any]:
    """Writes `run.trec`; returns the exit code, and the text of standard output and error."""
    code = main(
        f"data run --engine {engine} --index {index} --queries queries.tsv "
        "--query-template query.json --out run.trec".split()
        + list(flags)
    )
    return code, capsys.readouterr()
