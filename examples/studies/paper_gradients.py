"""How far the gradients of an LSTM-RNN are from those of P16 appendix A.

    python -m examples.studies.paper_gradients --model RUN

The appendix holds the output of the word before, y(t-1), constant in all gates; training here
follows it. Prints the cosine between both gradients of the loss, over all parameters of both
towers and for one batch of the bundled WebQuestions: of a run, and of its untrained model.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.losses import ClickSoftmax
from dssm_tf.model.semantic_ranker import SemanticRanker, build_model
from dssm_tf.model.siamese import Siamese
from dssm_tf.tables.columns import raw
from dssm_tf.tables.read import read
from dssm_tf.text_features import TextFeatures

BATCH, CANDIDATES = 256, 5
PAIRS = Path(str(files("dssm_tf.datasets"))) / "webquestions" / "pairs.tsv"


class Held(PeepholeLSTMCell):
    """A cell in which no gradient passes through y(t-1), nor from c(t-1) through a gate."""

    def activations(self, inputs, states):
        """As the cell's, with `y(t-1)` held constant."""
        y, c = states
        return super().activations(inputs, [keras.ops.stop_gradient(y), c])


def gradient(model: Siamese, features, pairs) -> np.ndarray:
    """Of the loss of a batch, in which each clicked title is a rival of the next queries."""
    queries, titles = ([one[side] for one in pairs] for side in (0, 1))
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
    found = (tf.convert_to_tensor(one) for one in tape.gradient(loss, variables))
    return np.concatenate([one.numpy().ravel() for one in found])


def main() -> None:
    """Prints a line a model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, type=Path)
    run = parser.parse_args().model
    ranker = SemanticRanker.load(run)
    features = TextFeatures(ranker.vocabulary)
    names = ("query", "title")
    pairs = read(PAIRS, [*map(raw, names)]).select(names).rows()[:BATCH]
    untrained = build_model(
        ranker.config.tower, ranker.config.shared_towers, ranker.vocabulary.size
    )
    for name, model in (("untrained", untrained), ("trained", ranker.model)):
        whole = gradient(model, features, pairs)
        for tower in (model.query_tower, model.title_tower):
            tower.recurrence.cell.__class__ = Held
        held = gradient(model, features, pairs)
        cosine = whole @ held / np.linalg.norm(whole) / np.linalg.norm(held)
        sys.stdout.write(f"{name}: cosine {cosine:.3f}\n")


if __name__ == "__main__":
    main()
