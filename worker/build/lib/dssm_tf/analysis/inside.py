"""What a trained run shows of itself: gates and cells, neurons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.cells import Reading
from dssm_tf.analysis.survey import activations, readings
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower


class Inside(NamedTuple):
    """A text as a tower read it.

    Attributes:
        vector: unit semantic vector `(dimension,)`.
        readings: of a recurrent tower, one for each direction.
        features: of a CLSM, `h_t(i)`, `(words, neurons)`.
    """

    vector: NDArray[np.float64]
    readings: list[Reading]
    features: NDArray[np.float32] | None


def look_inside(ranker: SemanticRanker, side: str, words: list[str]) -> Inside:
    """Reads a text of one side, `query` or `title`.

    Args:
        ranker: the model.
        side: of the text.
        words: of the text.
    """
    text, tower = " ".join(words), getattr(ranker.model, f"{side}_tower")
    encode = ranker.encode_queries if side == "query" else ranker.encode_titles
    read, features = [], None
    if isinstance(tower, RecurrentTower):
        (read,) = readings(tower, ranker.vocabulary, [text])
    elif isinstance(tower, CLSM):
        ((_, features),) = activations(tower, ranker.vocabulary, [text])
    return Inside(encode([text])[0].astype(np.float64), read, features)
