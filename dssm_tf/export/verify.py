"""Checks that an exported model gives the same vectors and scores as the trained model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.trained_ranker import TrainedRanker, Vectors
from dssm_tf.runtime.vector_ranker import VectorRanker

if TYPE_CHECKING:
    from dssm_tf.model.load_run import RunRanker

TOLERANCE = 1e-4
"""Maximum difference of a number in a vector or of a score.

Differences by the order of float32 sums are far smaller; a wrong word causes 100 times more.
"""
WORD_TOLERANCE = 1e-5
"""Maximum difference of a score that compares words, which adds fewer numbers."""

# Texts that have broken exported models: empty, blank, one letter, unknown, long, rare Unicode.
ADVERSARIAL = (
    "",
    "   ",
    "a",
    "zzyzx qqqq",
    "wizard of oz",
    "The WIZARD-of-Oz (1939)!",
    "x" * 10_000,
    "word " * 500,
    "\u0130stanbul \u039f\u0394\u039f\u03a3 stra\u00dfe",
    "cafe\u0301 caf\u00e9",
    "soft\u00adhyphen zero\u200bwidth",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u6771\u4eac \u30db\u30c6\u30eb",
    "\u6771\u4eac\u90fdTokyo 2020\u5e74 \uff76\uff9e\uff6f\uff7a\uff73",
    "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48\u0e01\u0e34\u0e19\u0e19\u0e49\u0e33",
    "\U0001f355 pizza",
    "nul\x00byte tab\tnew\nline",
    "\ud800 lone surrogate",
    "a wizard\u241fof oz \u241f\u241f1939\u241f",
)


def verify(candidate: TrainedRanker, trained: RunRanker) -> None:
    """Compares the scores, and any vectors, of `ADVERSARIAL` texts and of clicked titles.

    The scores of a compact model with the score maxsim are compared with those of the Keras model,
    because the run itself ranks with the same NumPy code as the compact model.

    Args:
        candidate: the exported model, loaded from its files.
        trained: the trained model, with weights rounded as in the export.

    Raises:
        UserError: a number differs by more than the tolerance; the message names the text.
    """
    has_vectors = isinstance(candidate, VectorRanker)
    tolerance = TOLERANCE if has_vectors else WORD_TOLERANCE
    clicked = list(trained.prior.log_priors)[:32]
    texts = [*ADVERSARIAL, *clicked, *(f" {title.upper()}!" for title in clicked)]
    calls: list[tuple[str, tuple[Any, ...]]] = [("score_matrix", (texts, texts))]
    if has_vectors:
        calls = [("encode_queries", (texts, True)), ("encode_titles", (texts, True)), *calls]
    for method, arguments in calls:
        # Vectors of the texts, or a matrix of scores, one row per text.
        values = getattr(candidate, method)(*arguments)
        if isinstance(candidate, MaxSimRanker):
            expected = _keras_scores(trained, texts)
        else:
            expected = getattr(trained, method)(*arguments)
        differences = np.nan_to_num(np.abs(values - expected).max(axis=1), nan=np.inf)
        row = int(differences.argmax())
        if differences[row] > tolerance:
            raise UserError(
                f"{method} of {texts[row][:40]!r} differs by {differences[row]:.2g} between the "
                f"exported and the trained model (allowed: {tolerance:g}); nothing was exported."
            )


def _keras_scores(run: Any, texts: Sequence[str]) -> Vectors:
    """The scores of a `MaxSimRun` by its Keras model, of each text for each text."""
    import tensorflow as tf

    from dssm_tf.text_features import TextFeatures

    features = TextFeatures(run.vocabulary, run.frequencies)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    with tf.device("CPU"):  # a GPU may multiply matrices in less than float32
        batch = features(tf.constant(encoded))
        similarities: Vectors = run.model.score_matrix(batch, batch).numpy()
    return similarities + run.weighted_prior(texts)
