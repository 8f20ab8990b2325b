"""The models that a server answers with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.export.load import load_model
from dssm_tf.runtime.vector_ranker import VectorRanker


class Model(NamedTuple):
    """A model that answers.

    Attributes:
        name: what clients call it.
        version: its number.
        ranker: gives vectors.
    """

    name: str
    version: int
    ranker: VectorRanker


def open_models(path: Path) -> list[Model]:
    """Loads the models of a directory, of each the newest version.

    Args:
        path: what `dssm export` wrote, `OUT` with several models, `OUT/NAME` with its versions or
            `OUT/NAME/VERSION`; or a run.

    Raises:
        UserError: it holds no model, or a file of one is damaged.
    """
    path, models = path.absolute(), []
    for home in [one for one in (path, *sorted(path.glob("*"))) if versions_in(one)] or [path]:
        version = newest_version(home)
        numbered = version.name.isdecimal()
        name, number = (version.parent.name, int(version.name)) if numbered else (version.name, 1)
        ranker = load_model(version)
        texts = ["", "a", "x" * 1000, "wizard of oz"]
        ranker.score_matrix(texts, texts)  # no user waits for a model's first time
        models.append(Model(name, number, ranker))
    return models
