"""Compares the gradients of an LSTM-RNN with those of Palangi et al. 2016, appendix A.

    python -m examples.studies.paper_gradients --model RUN

Eq. 16 to 42 differentiate through the cell. Eq. 43 (output gate) and 44 (other gates) send the
error of each gate back through y(t-1) and that gate's W_rec only; eq. 44 also omits the derivative
of the gate. This package has the exact gradient.

Prints the cosine of the exact gradient with each of the paper's two: by eq. 16 to 42, and by eq. 16
to 44. The gradients are over all parameters of both towers, on one batch of the bundled
WebQuestions. They are computed for a run and for its untrained model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras.ops import stop_gradient
from numpy.typing import NDArray

from dssm_tf.layers import PeepholeLSTMCell
from dssm_tf.losses import ClickSoftmax
from dssm_tf.model.build import build_model
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import Siamese
from dssm_tf.tables.columns import unchanged
from dssm_tf.tables.read import read
from dssm_tf.text_features import TextFeatures

Vector = NDArray[np.floating[Any]]

BATCH, CANDIDATES = 256, 5
PAIRS = Path(str(files("dssm_tf.datasets"))) / "webquestions" / "pairs.tsv"


class ConstantOutputCell(PeepholeLSTMCell):
    """A cell in which no gradient passes through y(t-1): eq. 16 to 42 alone.

    The error enters at the last word and goes back through c.
    """

    def activations(self, inputs: Any, states: Sequence[Any]) -> Any:
        """The activations of the cell, with `y(t-1)` as a constant."""
        y, c = states
        return super().activations(inputs, [stop_gradient(y), c])


class OneGateCell(PeepholeLSTMCell):
    """A cell whose gradients are those of eq. 16 to 44 for one gate, and 0 for the others.

    The activations are those of `PeepholeLSTMCell`. Only gradients differ.

    Attributes:
        gate: index of the block: 0 is the output gate, then come the forget gate if there is one,
            the input gate, and the cell input.
    """

    gate: ClassVar[int] = 0

    def activations(self, inputs: Any, states: Sequence[Any]) -> Any:
        """The activations of the cell; `y(t-1)` passes on the errors of eq. 43 and 44."""
        y, c = states
        kernel, constant_y, constant_c = self.recurrent_kernel, stop_gradient(y), stop_gradient(c)
        bias, peepholes = keras.ops.convert_to_tensor(self.bias), None
        if self.peepholes:
            peepholes = keras.ops.convert_to_tensor(self.peephole_kernel)
        # Gates read y(t-1) and c(t-1) as constants. Only one block keeps its gradient.
        net = inputs + keras.ops.matmul(constant_y, kernel) + bias
        blocks = keras.ops.split(net, self.blocks, axis=-1)
        if peepholes is not None:
            blocks[1:-1] = [
                block + peepholes[number] * constant_c
                for number, block in enumerate(blocks[1:-1], start=1)
            ]
        blocks = [
            block if number == self.gate else stop_gradient(block)
            for number, block in enumerate(blocks)
        ]
        gates = [keras.ops.sigmoid(block) for block in blocks[1:-1]]
        forget = gates[0] if self.forget_gate else 1.0
        c = forget * c + gates[-1] * keras.ops.tanh(blocks[-1])
        columns = slice(self.gate * self.units, (self.gate + 1) * self.units)
        # The error W_rec^T delta goes to y(t-1) and adds 0 to the value.
        feedback = keras.ops.matmul(y - constant_y, stop_gradient(kernel)[:, columns])
        net_o = blocks[0]
        if peepholes is not None:
            net_o = net_o + peepholes[0] * stop_gradient(c)
        if self.gate:
            # `feedback` enters y(t) only; the cell that step t + 1 reads is without it (eq. 44).
            output = stop_gradient(keras.ops.sigmoid(net_o)) * keras.ops.tanh(c + feedback)
        else:
            output = keras.ops.sigmoid(net_o + feedback) * stop_gradient(keras.ops.tanh(c))
        return {"c": c, "y": output}


def gradient(model: Siamese, features: TextFeatures, pairs: Sequence[Sequence[str]]) -> Vector:
    """The gradient of the loss of a batch; titles of the next pairs are the negatives."""
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
    gradients = (
        tf.convert_to_tensor(values)
        for values in tape.gradient(
            loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
    )
    return np.concatenate([values.numpy().ravel() for values in gradients])


def paper_gradients(
    model: Siamese, features: TextFeatures, pairs: Sequence[Sequence[str]]
) -> tuple[Vector, Vector]:
    """The gradients of Palangi et al. 2016, appendix A: by eq. 16 to 42 alone, and by eq. 16 to 44.

    The cells of the model are exchanged, so that its later gradients are not exact.
    """
    cells = [tower.recurrence.cell for tower in (model.query_tower, model.title_tower)]

    def with_cell(kind: type[PeepholeLSTMCell]) -> Vector:
        for cell in cells:
            cell.__class__ = kind
        return gradient(model, features, pairs)

    eq_16_to_42 = with_cell(ConstantOutputCell)
    eq_16_to_44 = np.zeros_like(eq_16_to_42)
    for block in range(cells[0].blocks):
        eq_16_to_44 += with_cell(type("OneGate", (OneGateCell,), {"gate": block}))
    return eq_16_to_42, eq_16_to_44


def main(argv: Sequence[str] | None = None) -> None:
    """Prints one line per model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, type=Path)
    run = parser.parse_args(argv).model
    ranker = SemanticRanker.load(run)
    features = TextFeatures(ranker.vocabulary)
    names = ("query", "title")
    pairs = read(PAIRS, [*map(unchanged, names)]).select(names).rows()[:BATCH]
    keras.utils.set_random_seed(ranker.config.training.seed)
    untrained = build_model(ranker.config, ranker.vocabulary.size)
    for name, model in (("untrained", untrained), ("trained", ranker.model)):
        exact = gradient(model, features, pairs)
        eq_16_to_42, eq_16_to_44 = paper_gradients(model, features, pairs)
        sys.stdout.write(
            f"{name}: cosine {cosine(exact, eq_16_to_42):.3f} with eq. 16 to 42 alone, "
            f"{cosine(exact, eq_16_to_44):.3f} with eq. 16 to 44\n"
        )


def cosine(a: Vector, b: Vector) -> float:
    """The cosine of two vectors."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


if __name__ == "__main__":
    main()
