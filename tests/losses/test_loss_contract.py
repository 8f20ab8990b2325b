"""What every loss promises, whatever its paper."""

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
from tests.losses.values import each, gradient
from tests.slopes import numerical_gradient

GENERATOR = np.random.default_rng(7)
SCORES = GENERATOR.uniform(-1, 1, (6, 5))
MASK = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0],
                 [1, 1, 1, 0, 1], [1, 0, 0, 1, 1]], bool)  # fmt: skip
CORRECTION = GENERATOR.normal(0, 0.5, SCORES.shape)
LABELS = labels(MASK, CORRECTION)
RIVALS = MASK & (LABELS["targets"] == 0)
GRADES = labels(MASK) | {"targets": GENERATOR.choice([1, 1.67, 2, 4], SCORES.shape)}

every_loss = pytest.mark.parametrize("name", LOSS_CONFIGS)
every_click_loss = pytest.mark.parametrize("name", CLICK_LOSS_CONFIGS)


def judged(name: str) -> dict[str, np.ndarray]:
    """Labels such as the loss takes."""
    return GRADES if name in GRADED_LOSS_CONFIGS else LABELS


def loss(name: str, scores=SCORES, known=None) -> np.ndarray:
    """The loss of each query."""
    return each(build_loss(name), scores, known or judged(name))


def slope(name: str, scores=SCORES, known=None) -> np.ndarray:
    """Its derivative in each score."""
    return gradient(build_loss(name), scores, known or judged(name))


@every_loss
def test_there_is_a_finite_loss_a_query(name):
    found = loss(name)
    assert found.shape == (len(SCORES),)
    assert np.isfinite(found).all()
    assert found.any()


@every_loss
def test_a_masked_candidate_counts_exactly_nothing(name):
    changed_there = np.where(MASK, SCORES, 1.0)  # a perfect cosine, the worst case
    np.testing.assert_array_equal(loss(name, changed_there), loss(name))
    assert not slope(name)[~MASK].any()


@every_loss
def test_a_query_without_a_rival_has_no_loss_and_no_gradient(name):
    alone = labels([[1, 0, 0]])
    scores = np.array([[-0.5, 1.0, 0.3]])
    assert loss(name, scores, alone) == pytest.approx([0], abs=1e-12)
    assert slope(name, scores, alone) == pytest.approx(np.zeros((1, 3)), abs=1e-12)


@every_click_loss
def test_a_candidate_that_stands_for_three_costs_as_three(name):
    # The softmax alone counts how often the clicked title was drawn.
    clicked = 0 if name == "click_softmax" else 0.7
    three = labels([[1, 1, 1]], [[clicked, np.log(3), 0]])
    apart = unmasked_labels([[0] * 5])
    found = loss(name, [[0.2, 0.5, -0.1]], three)
    assert found == pytest.approx(loss(name, [[0.2, 0.5, 0.5, 0.5, -0.1]], apart), rel=1e-6)


@every_click_loss
def test_the_loss_falls_with_the_clicked_score_and_rises_with_a_rival_s(name):
    found = slope(name)
    assert (found[LABELS["targets"] == 1] <= 0).all()
    assert (found[RIVALS] >= 0).all()
    assert found[RIVALS].any()


@every_loss
def test_the_order_of_the_columns_does_not_matter(name):
    order = [3, 1, 0, 4, 2]
    moved = {key: value[:, order] for key, value in judged(name).items()}
    np.testing.assert_allclose(loss(name, SCORES[:, order], moved), loss(name), rtol=1e-12)


@every_loss
def test_a_query_s_loss_is_its_own(name):
    for row, expected in enumerate(loss(name)):
        own = {key: value[row : row + 1] for key, value in judged(name).items()}
        assert loss(name, SCORES[row : row + 1], own) == pytest.approx([expected], rel=1e-12)


@every_loss
def test_weights_weigh_the_queries(name):
    weights = np.array([3, 0, 1, 2, 0.5, 0])
    found = build_loss(name, dtype="float64")(judged(name), SCORES, sample_weight=weights)
    assert float(found) == pytest.approx(np.mean(weights * loss(name)))


@every_loss
def test_the_gradient_is_the_slope(name):
    scores = SCORES.copy()
    expected = numerical_gradient(lambda: loss(name, scores).sum(), scores)
    assert slope(name) == pytest.approx(expected, abs=1e-5)


@every_loss
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_of_reduced_precision_give_a_loss_of_float32(name, dtype):
    scores = tf.cast(SCORES, dtype)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        found = build_loss(name, reduction="none")(judged(name), scores)
    assert found.dtype == tf.float32
    exact = loss(name, np.array(tf.cast(scores, tf.float64)))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    assert np.isfinite(tf.cast(tape.gradient(found, scores), tf.float32).numpy()).all()


@every_loss
def test_compiled_by_xla_the_numbers_are_the_same(name):
    made = build_loss(name, reduction="none")
    compiled = tf.function(made, jit_compile=True)
    found = compiled(judged(name), tf.constant(SCORES, tf.float32))
    np.testing.assert_allclose(found, loss(name), rtol=1e-5, atol=1e-6)


@every_loss
def test_every_parameter_survives_its_configuration(name):
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
def test_a_loss_is_found_by_its_name_and_an_instance_stays_itself(name):
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
