"""Loads the models to serve."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.export.load import load_model
from dssm_tf.runtime.trained_ranker import TrainedRanker


class Model(NamedTuple):
    """A served model.

    Attributes:
        name: its name in requests.
        version: the number of its version.
        ranker: computes scores, and vectors if the model has them.
    """

    name: str
    version: int
    ranker: TrainedRanker


def open_models(path: Path) -> list[Model]:
    """Loads the newest version of each model in a directory.

    Args:
        path: a run, or an output of `dssm export`: `OUT` with several models, `OUT/NAME` with its
            versions, or `OUT/NAME/VERSION`.

    Raises:
        UserError: the directory has no model, or a file is damaged.
    """
    path, models = path.absolute(), []
    candidates = (path, *sorted(path.glob("*")))
    for directory in [folder for folder in candidates if versions_in(folder)] or [path]:
        version = newest_version(directory)
        numbered = version.name.isdecimal()
        name, number = (version.parent.name, int(version.name)) if numbered else (version.name, 1)
        ranker = load_model(version)
        texts = ["", "a", "x" * 1000, "wizard of oz"]
        ranker.score_matrix(texts, texts)  # the first call is slow; no user should wait for it
        models.append(Model(name, number, ranker))
    return models
