"""Loads a run as a ranker, whatever its score."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.model.maxsim_run import MaxSimRun
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.trained_run import TrainedRun

RunRanker = SemanticRanker | MaxSimRun


def load_run(run: Path | str, name: str | None = None) -> RunRanker:
    """Loads a run that `dssm train` wrote.

    Args:
        run: the run's directory.
        name: the ranker's name in tables; by default that of its tower, or `maxsim`.

    Raises:
        UserError: the directory is missing, unfinished or damaged.
    """
    content = TrainedRun.read(run)
    if content.config.score.reads_words:
        return MaxSimRun(content, name)
    return SemanticRanker.from_run(content, name)
