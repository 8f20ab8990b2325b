"""`dssm evaluate` from Python, with what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.commands.evaluate import evaluate as command
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.reports import files


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    """Runs the command in a folder of the test's own, on its `j.tsv`; gives what it writes of."""
    found, write = [], files.write
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "write", lambda one, folder: (found.append(one), write(one, folder)))

    def run(*model: str, out: str = "out", **options) -> Evaluation:
        places = {key: Path(options[key]) for key in ("corpus", "data") if key in options}
        command(judgments=Path("j.tsv"), model=model, out=Path(out), **options | places)
        return found[-1]

    return run
