"""The contract of every loss."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from dssm_tf import losses
from dssm_tf.losses import ClickSoftmax
from tests.components import (
    CLICK_LOSS_CONFIGS,
    GRADED_LOSS_CONFIGS,
    LOSS_CLASSES,
    LOSS_CONFIGS,
    build_loss,
    changed_values,
    copy_of,
)
from tests.labels import labels, unmasked_labels
from tests.losses.values import gradient, losses_per_query
from tests.numerical_gradients import numerical_gradient

GENERATOR = np.random.default_rng(7)
SCORES = GENERATOR.uniform(-1, 1, (6, 5))
MASK = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0],
                 [1, 1, 1, 0, 1], [1, 0, 0, 1, 1]], bool)  # fmt: skip
CORRECTION = GENERATOR.normal(0, 0.5, SCORES.shape)
LABELS = labels(MASK, CORRECTION)
UNCLICKED = MASK & (LABELS["targets"] == 0)
GRADES = labels(MASK) | {"targets": GENERATOR.choice([1, 1.67, 2, 4], SCORES.shape)}

every_loss = pytest.mark.parametrize("name", LOSS_CONFIGS)
every_click_loss = pytest.mark.parametrize("name", CLICK_LOSS_CONFIGS)


def labels_for(name: str) -> dict[str, np.ndarray]:
    """Grades for a loss of graded lists, else labels of clicks."""
    return GRADES if name in GRADED_LOSS_CONFIGS else LABELS


def loss(name: str, scores=SCORES, labels_of_rows=None) -> np.ndarray:
    """The loss of each query."""
    return losses_per_query(build_loss(name), scores, labels_of_rows or labels_for(name))


def gradient_of(name: str, scores=SCORES, labels_of_rows=None) -> np.ndarray:
    """The derivative of the loss by each score."""
    return gradient(build_loss(name), scores, labels_of_rows or labels_for(name))


@every_loss
def test_each_query_has_a_finite_loss(name):
    losses_of_queries = loss(name)
    assert losses_of_queries.shape == (len(SCORES),)
    assert np.isfinite(losses_of_queries).all()
    assert losses_of_queries.any()


@every_loss
def test_one_row_of_targets_and_corrections_for_all_queries_equals_equal_rows(name):
    one_row = {key: labels_for(name)[key][:1] for key in ("targets", "correction")}
    equal_rows = {key: np.repeat(value, len(SCORES), 0) for key, value in one_row.items()}
    short, full = ({"mask": MASK} | rows for rows in (one_row, equal_rows))
    np.testing.assert_array_equal(loss(name, labels_of_rows=short), loss(name, labels_of_rows=full))
    np.testing.assert_allclose(
        gradient_of(name, labels_of_rows=short), gradient_of(name, labels_of_rows=full), rtol=1e-12
    )


@every_loss
def test_a_masked_candidate_has_no_effect(name):
    changed = np.where(MASK, SCORES, 1.0)  # a perfect cosine, the worst case
    np.testing.assert_array_equal(loss(name, changed), loss(name))
    assert not gradient_of(name)[~MASK].any()


@every_loss
def test_a_query_with_a_single_candidate_has_no_loss_and_no_gradient(name):
    single_candidate = labels([[1, 0, 0]])
    scores = np.array([[-0.5, 1.0, 0.3]])
    assert loss(name, scores, single_candidate) == pytest.approx([0], abs=1e-12)
    assert gradient_of(name, scores, single_candidate) == pytest.approx(np.zeros((1, 3)), abs=1e-12)


@every_click_loss
def test_a_candidate_that_counts_three_times_costs_as_three_candidates(name):
    # Only the softmax reads the correction of the clicked title.
    clicked = 0 if name == "click_softmax" else 0.7
    counted_thrice = labels([[1, 1, 1]], [[clicked, np.log(3), 0]])
    separate = unmasked_labels([[0] * 5])
    expected = loss(name, [[0.2, 0.5, 0.5, 0.5, -0.1]], separate)
    assert loss(name, [[0.2, 0.5, -0.1]], counted_thrice) == pytest.approx(expected, rel=1e-6)


@every_click_loss
def test_the_loss_falls_with_the_clicked_score_and_rises_with_an_unclicked_score(name):
    gradients = gradient_of(name)
    assert (gradients[LABELS["targets"] == 1] <= 0).all()
    assert (gradients[UNCLICKED] >= 0).all()
    assert gradients[UNCLICKED].any()


@every_loss
def test_the_order_of_the_columns_does_not_matter(name):
    order = [3, 1, 0, 4, 2]
    reordered = {key: value[:, order] for key, value in labels_for(name).items()}
    np.testing.assert_allclose(loss(name, SCORES[:, order], reordered), loss(name), rtol=1e-12)


@every_loss
def test_the_loss_of_a_query_does_not_depend_on_other_queries(name):
    for row, expected in enumerate(loss(name)):
        labels_of_row = {key: value[row : row + 1] for key, value in labels_for(name).items()}
        loss_of_row = loss(name, SCORES[row : row + 1], labels_of_row)
        assert loss_of_row == pytest.approx([expected], rel=1e-12)


@every_loss
def test_weights_weigh_the_queries(name):
    weights = np.array([3, 0, 1, 2, 0.5, 0])
    mean = build_loss(name, dtype="float64")(labels_for(name), SCORES, sample_weight=weights)
    assert float(mean) == pytest.approx(np.mean(weights * loss(name)))


@every_loss
def test_the_gradient_equals_finite_differences(name):
    scores = SCORES.copy()
    expected = numerical_gradient(lambda: loss(name, scores).sum(), scores)
    assert gradient_of(name) == pytest.approx(expected, abs=1e-5)


@every_loss
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_of_reduced_precision_give_a_loss_of_float32(name, dtype):
    scores = tf.cast(SCORES, dtype)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        values = build_loss(name, reduction="none")(labels_for(name), scores)
    assert values.dtype == tf.float32
    exact = loss(name, np.array(tf.cast(scores, tf.float64)))
    np.testing.assert_allclose(values, exact, rtol=1e-5, atol=1e-5)
    assert np.isfinite(tf.cast(tape.gradient(values, scores), tf.float32).numpy()).all()


@every_loss
def test_compiled_by_xla_the_numbers_are_the_same(name):
    compiled = tf.function(build_loss(name, reduction="none"), jit_compile=True)
    values = compiled(labels_for(name), tf.constant(SCORES, tf.float32))
    np.testing.assert_allclose(values, loss(name), rtol=1e-5, atol=1e-6)


@every_loss
def test_serialization_keeps_every_parameter(name):
    parameters = changed_values(LOSS_CONFIGS[name])
    loss = build_loss(name, **parameters, reduction="sum")
    copy = copy_of(loss)
    assert type(copy) is LOSS_CLASSES[name]
    assert copy.get_config() == loss.get_config()
    assert loss.get_config().items() >= {**parameters, "reduction": "sum"}.items()


WRONG_PARAMETERS = [
    (name, parameter, value)
    for name, config in LOSS_CONFIGS.items()
    for parameter in changed_values(config)
    for value in (0, -1, float("nan"), float("inf"), True, "x", None)
    if (parameter, value) not in {("bias", 0), ("bias", -1)}
]


@pytest.mark.parametrize(("name", "parameter", "value"), WRONG_PARAMETERS)
def test_a_wrong_parameter_is_refused_with_its_name_and_value(name, parameter, value):
    class_name = LOSS_CLASSES[name].__name__
    with pytest.raises(
        ValueError, match=rf"^{class_name} received {parameter}={value!r}; expected"
    ):
        build_loss(name, **{parameter: value})


@every_loss
def test_get_returns_a_loss_by_its_name_and_an_instance_unchanged(name):
    loss = losses.get(name)
    assert type(loss) is LOSS_CLASSES[name]
    assert loss.get_config() == build_loss(name).get_config()
    assert loss.name == name
    assert losses.get(loss) is loss


@pytest.mark.parametrize("identifier", ["hinges", "mse", ClickSoftmax, 3, None])
def test_an_unknown_loss_is_refused_with_the_names_of_all(identifier):
    with pytest.raises(ValueError, match=r"^received loss=") as caught:
        losses.get(identifier)
    assert f"one of {', '.join(LOSS_CONFIGS)}, or an instance" in str(caught.value)
