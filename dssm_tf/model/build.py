"""Builds the untrained model of a configuration."""

from __future__ import annotations

from dssm_tf.config import Config
from dssm_tf.model.siamese import Siamese


def build_model(config: Config, vocabulary_size: int, precision: str = "float32") -> Siamese:
    """The untrained model of a configuration, with its weights.

    Args:
        config: its `tower`, `shared_towers` and `score` are read.
        vocabulary_size: number of n-gram ids, padding not counted.
        precision: a Keras dtype policy; training passes `training.precision`. Ranking computes in
            float32, the precision of all weights: in bfloat16, a vector would depend on the CPU and
            on the other texts of its batch.
    """
    tower = config.tower
    query_tower = tower.build(vocabulary_size, name="query_tower", dtype=precision)
    title_tower = None
    if not config.shared_towers:
        title_tower = tower.build(vocabulary_size, name="title_tower", dtype=precision)
    score = config.score.build(vocabulary_size)
    model = Siamese(query_tower, title_tower, score, name="siamese")
    model.build()
    return model
