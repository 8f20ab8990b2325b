"""Compares the gradients of an LSTM-RNN with those of P16 appendix A.

    python -m examples.studies.paper_gradients --model RUN

The appendix treats the previous output, y(t-1), as a constant in all gates; this package
differentiates through it. Prints the cosine between both gradients of the loss, over all parameters
of both towers, for one batch of the bundled WebQuestions: for a run and for its untrained model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.losses import ClickSoftmax
from dssm_tf.model.build import build_model
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import Siamese
from dssm_tf.tables.columns import raw
from dssm_tf.tables.read import read
from dssm_tf.text_features import TextFeatures

Vector = NDArray[np.floating[Any]]

BATCH, CANDIDATES = 256, 5
PAIRS = Path(str(files("dssm_tf.datasets"))) / "webquestions" / "pairs.tsv"


class ConstantOutputCell(PeepholeLSTMCell):
    """A cell in which no gradient passes through y(t-1), as in P16 appendix A."""

    def activations(self, inputs: Any, states: Sequence[Any]) -> Any:
        """The activations of the cell, with `y(t-1)` as a constant."""
        y, c = states
        return super().activations(inputs, [keras.ops.stop_gradient(y), c])


def gradient(model: Siamese, features: TextFeatures, pairs: Sequence[Sequence[str]]) -> Vector:
    """The gradient of the loss of a batch; titles of the previous pairs are the negatives."""
    queries, titles = ([pair[side] for pair in pairs] for side in (0, 1))
    rows = np.arange(len(pairs))
    candidates = (rows[:, None] + np.arange(CANDIDATES)) % len(pairs)
    variables = [weight.value for weight in model.trainable_variables]
    with tf.GradientTape() as tape:
        inputs = {"query": features(tf.constant(queries)), "titles": features(tf.constant(titles))}
        cosines = model(inputs | {"candidates": candidates}, training=True)
        labels = {
            "mask": np.ones(cosines.shape, bool),
            "correction": np.zeros(cosines.shape, np.float32),
            "targets": np.eye(1, cosines.shape[1], dtype=np.float32).repeat(len(cosines), 0),
        }
        loss = ClickSoftmax()(labels, cosines)
    gradients = (tf.convert_to_tensor(values) for values in tape.gradient(loss, variables))
    return np.concatenate([values.numpy().ravel() for values in gradients])


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one line per model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, type=Path)
    run = parser.parse_args(argv).model
    ranker = SemanticRanker.load(run)
    features = TextFeatures(ranker.vocabulary)
    names = ("query", "title")
    pairs = read(PAIRS, [*map(raw, names)]).select(names).rows()[:BATCH]
    untrained = build_model(ranker.config, ranker.vocabulary.size)
    for name, model in (("untrained", untrained), ("trained", ranker.model)):
        full = gradient(model, features, pairs)
        for tower in (model.query_tower, model.title_tower):
            tower.recurrence.cell.__class__ = ConstantOutputCell
        paper = gradient(model, features, pairs)
        cosine = full @ paper / np.linalg.norm(full) / np.linalg.norm(paper)
        sys.stdout.write(f"{name}: cosine {cosine:.3f}\n")


if __name__ == "__main__":
    main()
