"""Loads compact models with any score function."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dssm_tf.runtime.compact_files import CompactFiles, read_compact
from dssm_tf.runtime.compact_ranker import CompactRanker
from dssm_tf.runtime.hashed_priors import HashedPriors
from dssm_tf.runtime.maxsim import MaxSim
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.text_vectors import TextVectors
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.text.document_frequencies import DocumentFrequencies


def load(directory: Path | str) -> TrainedRanker:
    """Loads a compact model.

    Args:
        directory: a version of a model; or a model, whose newest version is loaded.

    Returns:
        A `CompactRanker` for a model with the score function cosine, a `MaxSimRanker` for maxsim.

    Raises:
        UserError: the directory does not exist or has another format, or a file was damaged or
            changed.

    >>> load("nowhere")
    Traceback (most recent call last):
    dssm_tf.common.errors.UserError: nowhere does not exist; ...
    """
    files = read_compact(Path(directory))
    if files.frequencies is None:
        return CompactRanker(files)
    maxsim = _maxsim(files, files.frequencies)
    gamma = files.settings["score"]["gamma"]
    maxsim = maxsim.with_rules(files.search_rules)
    ranker = MaxSimRanker(files.settings, maxsim, HashedPriors(files), gamma)
    return ranker.with_remembered_clicks(files.remembered_clicks)


def _maxsim(files: CompactFiles, frequencies: DocumentFrequencies) -> MaxSim:
    """The word vectors and weights of a compact model with the score maxsim."""
    weights, score = files.weights, files.settings["score"]
    text_vectors = None
    if score["text_cosine"]:
        text_vectors = TextVectors(
            files.vocabulary,
            frequencies,
            weights["text_kernel"] * weights.get("text_scale", np.float32(1)),
            weights["text_importance"],
            score["text_cosine"],
        )
    return MaxSim(
        files.vocabulary,
        frequencies,
        weights["kernel"] * weights.get("scale", np.float32(1)),
        weights["importance"],
        weights["side_weights"],
        weights["pair_bias"],
        score["threshold"],
        text_vectors,
    )
