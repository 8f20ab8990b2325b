"""A finished run with random weights, written without training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.build import build_model
from dssm_tf.training.run_directory import Result, finish_run, start_run
from tests.clicks import Data

NDCG = {
    "ndcg@1": 0.5, "low ndcg@1": 0.4, "high ndcg@1": 0.6, "similarity ndcg@1": 0.45,
    "queries": 300.0,
}  # fmt: skip


def finished_run(
    out: Path, data: Data, config: Mapping[str, Any], prior_weight: float = 0.1, seed: int = 0
) -> Path:
    """Writes the directory of a finished run and returns it."""
    settings = parse_config(dict(config))
    preprocessed = Preprocessed(data.path)
    preprocessed = preprocessed.with_letter_ngrams(settings.letter_ngrams)
    if settings.whole_words:
        preprocessed = preprocessed.with_whole_words()
    start_run(settings, preprocessed, out)
    keras.utils.set_random_seed(seed)
    model = build_model(settings, preprocessed.vocabulary.size)
    result = Result(1, 1, [{"loss": 1.0}], prior_weight, NDCG)
    finish_run(model, settings, result, preprocessed, out)
    return out
