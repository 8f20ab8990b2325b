"""A fixture that runs `dssm evaluate` and returns its evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.commands.evaluate import evaluate as command
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.reports import files


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Runs the command in the test's folder with its `j.tsv`, and returns the evaluation."""
    evaluations, write_files = [], files.write
    monkeypatch.chdir(tmp_path)

    def write_and_record(evaluation, folder):
        evaluations.append(evaluation)
        write_files(evaluation, folder)

    monkeypatch.setattr(files, "write", write_and_record)

    def run(*model: str, out: str = "out", **options) -> Evaluation:
        paths = {key: Path(options[key]) for key in ("corpus", "data") if key in options}
        command(judgments=Path("j.tsv"), model=model, out=Path(out), **options | paths)
        return evaluations[-1]

    return run
