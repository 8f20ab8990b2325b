"""`dssm evaluate` from Python, with what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssm_tf.commands.evaluate import evaluate
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.reports import files


def evaluate_command(models, judgments, corpus, out, baselines=("bm25",), **options) -> Evaluation:
    """What the command writes of."""
    found, write = [], files.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write", lambda one, folder: (found.append(one), write(one, folder)))
        evaluate(
            model=tuple(models),
            judgments=Path(judgments),
            corpus=corpus,
            out=Path(out),
            baselines=",".join(baselines),
            **options,
        )
    return found[0]
