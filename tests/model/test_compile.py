"""A Siamese in plain Keras: `compile`, `fit`, `evaluate`, `add_loss`, `save` and `load_model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING
from dssm_tf.losses import ClickSoftmax, Hinge, RankingLoss
from dssm_tf.model.siamese import Siamese
from dssm_tf.optimizers import ScheduledNesterov
from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.tower import Tower
from tests.components import LOSS_CONFIGS
from tests.labels import labels
from tests.reference.letter_trigrams import text_batch, trigrams

QUERIES = [["cat"], ["dog", "food"]]
TITLES = [["cats", "and", "dogs"], ["dog", "food"], ["bird", "cage"]]
KNOWN = list(dict.fromkeys(t for s in QUERIES + TITLES for word in s for t in trigrams(word)))
INPUTS = {
    "query": text_batch(QUERIES, KNOWN),
    "titles": text_batch(TITLES, KNOWN),
    "candidates": np.array([[0, 1, 2], [1, 0, 2]], np.int32),
}
# The second query has one negative, the first has two.
LABELS = labels([[1, 1, 1], [1, 1, 0]])


@keras.saving.register_keras_serializable(package="mine")
class Lead(RankingLoss):
    """Minus the clicked title's lead over its first negative."""

    def per_query(self, scores, targets, mask, correction):
        return scores[:, 1] - scores[:, 0]


@keras.saving.register_keras_serializable(package="mine")
class PenalizedDSSM(DSSM):
    """Adds 0.5 times the sum of the squared biases to the loss."""

    def call(self, texts, training=False):
        self.add_loss(0.5 * ops.sum(ops.square(self.bias)))
        return super().call(texts, training=training)


class FixedTower(Tower):
    """Returns its weights as vectors for any texts, and adds their sum to the loss."""

    def __init__(self, vectors: Any) -> None:
        super().__init__(1, 1)
        self.hashing.trainable = False  # unused, so it has no gradient
        self.start = np.asarray(vectors, np.float32)

    def build(self, *_):
        self.vectors = self.add_weight(
            shape=self.start.shape, initializer=lambda *_, **__: self.start, name="vectors"
        )
        super().build()

    def call(self, texts, training=False):
        self.add_loss(ops.sum(self.vectors))
        return ops.convert_to_tensor(self.vectors)

    def encode(self, words, present):
        raise NotImplementedError

    @property
    def dimension(self):
        return self.start.shape[1]


class ScoresFromInputs(Siamese):
    """Returns the scores in its inputs instead of cosines."""

    def call(self, inputs, training=False):
        return inputs["scores"]


def siamese(make: Callable[..., Tower] = DSSM) -> Siamese:
    keras.utils.set_random_seed(0)
    return Siamese(make(len(KNOWN), (6, 4)), make(len(KNOWN), (6, 4)))


def batches(inputs=INPUTS, known=LABELS) -> tf.data.Dataset:
    """A dataset of one batch."""
    return tf.data.Dataset.from_tensors((inputs, known)).with_options(WITHOUT_AUTOTUNING)


def fitted(loss: Any) -> tuple[list[float], list[np.ndarray]]:
    """The losses and the weights of a short training."""
    model = siamese()
    model.compile(keras.optimizers.SGD(0.5), loss)
    history = model.fit(batches(), epochs=4, shuffle=False, verbose=0).history
    return history["loss"], model.get_weights()


@pytest.mark.parametrize(
    ("loss", "name"),
    [(ClickSoftmax(), "click_softmax"), (Hinge(), "hinge"), (Lead(), "mine>Lead")],
)
def test_an_instance_and_its_name_train_equally(loss, name):
    (losses, weights), (losses_by_name, weights_by_name) = fitted(loss), fitted(name)
    assert losses == losses_by_name
    assert losses[-1] < losses[0]
    for weight, weight_by_name in zip(weights, weights_by_name, strict=True):
        np.testing.assert_array_equal(weight, weight_by_name)


def test_a_parameter_of_an_instance_changes_the_training():
    assert fitted(ClickSoftmax(gamma=20))[0] != fitted(ClickSoftmax())[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "hinges"}, f"received loss='hinges'; expected one of {', '.join(LOSS_CONFIGS)}"),
        ({"loss": "mine>Nothing"}, "received loss='mine>Nothing'; expected one of click_softmax"),
        ({"loss": keras.losses.MeanSquaredError()}, "expected one of click_softmax"),
        ({"loss": "hinge", "weighted_metrics": ["accuracy"]}, "received weighted_metrics="),
        ({"loss": "hinge", "loss_weights": [2.0]}, "received loss_weights="),
        ({"loss": "hinge", "metrics": ["nothing"]}, "metric identifier: nothing"),
        ({"loss": "hinge", "metrics": ["accuracy", "acc"]}, "the name 'accuracy' twice"),
        ({"loss": "hinge", "metrics": [keras.metrics.Mean("loss")]}, "the name 'loss' twice"),
        ({"loss": "hinge", "metrics": [3]}, "metrics received|interpret metric"),
    ],
)
def test_unusable_arguments_of_compile_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        siamese().compile("sgd", **arguments)


def test_training_without_a_loss_is_refused():
    model = siamese()
    model.compile("sgd")
    with pytest.raises(
        ValueError, match=r'without a loss; expected, e.g., model.compile\(loss="cl'
    ):
        model.train_on_batch(INPUTS, LABELS)


def test_metrics_are_those_of_the_ranking_without_masked_candidates():
    # The clicked title, in column 0, has the ranks 1 (of 2), 2, 3, 1 and 1 (of 1): it is first in 3
    # of 5 queries, and among the first two in 4 of 5.
    scores = [[0.9, 0.1, 0.0], [0.5, 0.6, 0.1], [0.1, 0.2, 0.3], [0.2, -0.5, 0.1], [-0.4, 0.8, 0.9]]
    mask = [[1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 0]]
    model = ScoresFromInputs(DSSM(len(KNOWN), (4,)))
    top_2 = keras.metrics.TopKCategoricalAccuracy(2, name="top_2")
    model.compile("sgd", "hinge", metrics=["accuracy", top_2])
    data = batches({"scores": np.array(scores, np.float32)}, labels(mask))
    result = model.evaluate(data, verbose=0, return_dict=True)
    assert result["accuracy"] == pytest.approx(3 / 5)
    assert result["top_2"] == pytest.approx(4 / 5)
    # Hinges with a margin of .2: 0; .3; .3 and .4; .1; 0. Their sum is 1.1.
    assert result["loss"] == pytest.approx(1.1 / 5)
    # The second call starts with reset metrics.
    assert model.evaluate(data, verbose=0, return_dict=True) == result


@pytest.mark.parametrize("metric", ["accuracy", "acc", "Accuracy"])
def test_each_name_of_accuracy_is_whether_the_clicked_title_is_first(metric):
    model = ScoresFromInputs(DSSM(len(KNOWN), (4,)))
    model.compile("sgd", "hinge", metrics=metric)
    scores = {"scores": np.array([[0.5, 0.1], [0.1, 0.5]], np.float32)}
    result = model.test_on_batch(scores, labels([[1, 1], [1, 1]]), return_dict=True)
    assert result["accuracy"] == pytest.approx(1 / 2)


def test_each_query_counts_once_in_the_metrics_with_any_weight():
    model = ScoresFromInputs(DSSM(len(KNOWN), (4,)))
    model.compile("sgd", "hinge", metrics=["accuracy"])
    scores = {"scores": np.array([[0.5, 0.1], [0.1, 0.5]], np.float32)}
    weights = np.array([1.0, 9.0], np.float32)
    result = model.test_on_batch(scores, labels([[1, 1], [1, 1]]), weights, return_dict=True)
    assert result["accuracy"] == pytest.approx(1 / 2)
    assert result["loss"] == pytest.approx(9 * 0.6 / 2)  # the weighted sum over the batch size


@pytest.mark.parametrize("step", ["train_on_batch", "test_on_batch"])
def test_losses_that_a_tower_adds_are_part_of_the_loss(step):
    model = Siamese(
        FixedTower([[3.0, 4.0]]),  # the query
        FixedTower([[1.0, 0.0], [0.0, 2.0]]),  # the clicked title and a negative
    )
    model.compile(keras.optimizers.SGD(0.1), Lead())
    inputs = INPUTS | {"candidates": np.array([[0, 1]], np.int32)}
    result = getattr(model, step)(inputs, labels([[1, 1]]), return_dict=True)
    # Cosines 3/5 and 4/5: a lead of -1/5; the towers add 3 + 4 and 1 + 2.
    assert result["loss"] == pytest.approx(1 / 5 + 7 + 3)
    expected = np.array([[1.0, 0.0], [0.0, 2.0]])
    if step == "train_on_batch":
        # d cosine / d title = (query/5 - cosine title/|title|) / |title|; for the clicked title
        # negated. That is:
        # (.6 - .6 1, .8) / 1 and (.6, .8 - .8 1) / 2; add_loss has a gradient of 1 everywhere.
        expected = expected - 0.1 * (np.array([[0.0, -0.8], [0.3, 0.0]]) + 1)
    np.testing.assert_allclose(model.title_tower.vectors.numpy(), expected, atol=1e-6)


def test_the_penalty_of_a_registered_tower_changes_its_weights_exactly():
    plain, penalized = siamese(), siamese(PenalizedDSSM)
    penalized.set_weights(plain.get_weights())
    for model in (plain, penalized):
        model.compile(keras.optimizers.SGD(0.1), "click_softmax")
        for tower in (model.query_tower, model.title_tower):
            tower.bias.assign(np.linspace(-1, 1, 6))
    squares = float(np.sum(np.linspace(-1, 1, 6) ** 2))
    start = [model.test_on_batch(INPUTS, LABELS) for model in (plain, penalized)]
    assert start[1] - start[0] == pytest.approx(2 * 0.5 * squares, rel=1e-5)
    losses = [
        model.fit(batches(), epochs=1, shuffle=False, verbose=0).history["loss"][0]
        for model in (plain, penalized)
    ]
    assert losses == pytest.approx(start)
    # The penalty's gradient is the bias, so a step with rate .1 removes a tenth of it.
    difference = plain.query_tower.bias.numpy() - penalized.query_tower.bias.numpy()
    np.testing.assert_allclose(difference, 0.1 * np.linspace(-1, 1, 6), atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: keras.optimizers.Adam(0.01),
        lambda: ScheduledNesterov(0.05, 40, momentum=0.9, clip_norm=0.01),
    ],
)
@pytest.mark.parametrize("make", [DSSM, PenalizedDSSM])
def test_a_saved_model_continues_as_if_it_had_never_been_saved(tmp_path, optimizer, make):
    model = siamese(make)
    metrics = ["accuracy", keras.metrics.TopKCategoricalAccuracy(2), "categorical_crossentropy"]
    model.compile(optimizer(), ClickSoftmax(gamma=7.5), metrics=metrics)
    for _ in range(3):
        model.train_on_batch(INPUTS, LABELS)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.compiled
    assert type(loaded.loss) is ClickSoftmax
    assert loaded.loss.get_config() == model.loss.get_config()
    assert [metric.name for metric in loaded.metrics] == [
        "loss", "accuracy", "top_k_categorical_accuracy", "categorical_crossentropy"
    ]  # fmt: skip
    assert loaded.metrics[2].get_config() == model.metrics[2].get_config()
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert int(loaded.optimizer.iterations) == 3
    for variable, expected in zip(
        loaded.optimizer.variables, model.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(variable.numpy(), expected.numpy())
    for trained in (model, loaded):
        trained.reset_metrics()
    results = [
        trained.train_on_batch(INPUTS, LABELS, return_dict=True) for trained in (model, loaded)
    ]
    assert results[0] == results[1]
    for weight, expected in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_a_model_that_was_never_compiled_is_loaded_uncompiled(tmp_path):
    model = siamese()
    model.build()
    model.save(tmp_path / "model.keras")
    assert not keras.saving.load_model(tmp_path / "model.keras").compiled


def test_nesterov_clips_each_tower_separately_also_in_a_loaded_model(tmp_path):
    """The query tower's gradient is far below the threshold, the title tower's far above it."""
    model = siamese()
    model.compile(ScheduledNesterov(1.0, clip_norm=0.5), "click_softmax")
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    for tested in (model, keras.saving.load_model(tmp_path / "model.keras")):
        variables = tested.trainable_variables
        query_ids = {id(variable) for variable in tested.query_tower.trainable_variables}
        in_query_tower = [id(variable) in query_ids for variable in variables]
        assert sum(in_query_tower) == len(in_query_tower) / 2
        gradients = [
            tf.fill(variable.shape, 1e-4 if is_query else 1.0)
            for variable, is_query in zip(variables, in_query_tower, strict=True)
        ]
        start = [variable.numpy() for variable in variables]
        tested.optimizer.apply(gradients, variables)
        tested.optimizer.finalize_variable_values(variables)
        squares = {True: 0.0, False: 0.0}
        for variable, before, is_query in zip(variables, start, in_query_tower, strict=True):
            squares[is_query] += float(np.sum((variable.numpy() - before) ** 2))
        count = sum(int(np.prod(variable.shape)) for variable in variables) / 2
        assert np.sqrt(squares[True]) == pytest.approx(1e-4 * np.sqrt(count), rel=1e-2)
        assert np.sqrt(squares[False]) == pytest.approx(0.5, rel=1e-4)
