"""Pretraining and fine-tuning: they learn, are repeatable, and stop when they diverge."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse.margin_rank import margin_rank
from dssm_tf.dse.margin_training import (
    LOOKS,
    FineTuning,
    Pretraining,
    encode,
    fine_tune,
    pretrain,
)
from dssm_tf.dse.networks.dse import DSE, DSEPair
from dssm_tf.dse.networks.ssi import SSI
from dssm_tf.dse.relevance import TupleBatches, same_class
from dssm_tf.evaluation.rank_loss import rank_loss

PAGES, WORDS = 60, 12


def topics(seed=0):
    """Pages of three classes, each with its own four words most of the time."""
    random = np.random.default_rng(seed)
    labels = np.arange(PAGES) % 3
    often = np.where(np.arange(WORDS)[None] // 4 == labels[:, None], 0.7, 0.15)
    bags = (random.random((PAGES, WORDS)) < often).astype(np.float32)
    return sparse.csr_matrix(bags), same_class([str(label) for label in labels])


def loss_of(model, bags, relevant) -> float:
    return rank_loss(
        encode(model.query_vectors, bags) @ encode(model.title_vectors, bags).T, relevant
    )


def test_the_hinge_is_the_margin_minus_the_lead_of_the_relevant_title():
    scores = np.array([[2, 1.5, 3], [9, 0, 9], [0, 0, 4.0]])
    counted = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    # First query: max(0, 1 - 2 + 1.5) = 0.5 and max(0, 1 - 2 + 3) = 2; the second has no tuple;
    # third: max(0, 1 - 4 + 0) = 0.
    assert float(margin_rank(tf.constant(scores), counted)) == pytest.approx((2.5 / 2) / 3)


def test_a_violated_margin_pulls_at_both_titles_and_nothing_else_does():
    scores = tf.Variable([[2.0, 1.5], [9.0, 0.0]])
    with tf.GradientTape() as tape:
        value = margin_rank(scores, np.array([[0.0, 1.0], [0.0, 0.0]]))
    # W14 eq. 19, a mean over two queries: minus for the relevant title, plus for the irrelevant.
    assert tape.gradient(value, scores).numpy().tolist() == [[-0.5, 0.5], [0, 0]]


def test_pretraining_teaches_every_layer_from_the_bottom_up():
    bags, _ = topics()
    tower = DSE(WORDS, 2)
    tower.build()
    steps = []
    taught = pretrain(tower, bags, Pretraining(steps=60), lambda step, state: steps.append(step))
    assert steps == list(range(1, 4 * 60 + 1))
    assert [len(layer.reconstruction_error) for layer in taught] == [LOOKS] * 4
    first = taught[0]
    assert first.reconstruction_error[-1] < first.reconstruction_error[0]
    # Independent fair words would have 12 log 2 nats; biases alone know their frequency.
    assert first.pseudo_log_likelihood[-1] > -WORDS * np.log(2)


def test_lower_layers_can_be_taken_over_since_they_do_not_know_c():
    bags, _ = topics()
    settings = Pretraining(steps=10)
    whole, other = DSE(WORDS, 3), DSE(WORDS, 3)
    smaller = DSE(WORDS, 2)
    for tower in (whole, other, smaller):
        tower.build()
    pretrain(whole, bags, settings)
    pretrain(smaller, bags, settings)
    assert len(pretrain(other, bags, settings, lower=smaller)) == 1
    for ours, theirs in zip(other.machines[:-1], smaller.machines[:-1], strict=True):
        np.testing.assert_array_equal(ours.kernel, theirs.kernel)
    np.testing.assert_allclose(other.machines[-1].kernel, whole.machines[-1].kernel, atol=1e-6)


@pytest.mark.parametrize("kind", ["dse", "ssi"])
def test_fine_tuning_orders_the_pages_of_the_classes(kind):
    bags, relevant = topics()
    model = DSEPair(WORDS, 2) if kind == "dse" else SSI(WORDS, 2)
    if kind == "dse":
        pretrain(model.query_tower, bags, Pretraining(steps=200))
    before = loss_of(model, bags, relevant)
    settings = FineTuning(200, 0.02, optimizer="adam")
    losses = fine_tune(model, bags, bags, TupleBatches(relevant, batch_size=64), settings)
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    assert loss_of(model, bags, relevant) < min(10.0, before / 2)


def test_the_model_that_validation_likes_best_is_kept():
    bags, relevant = topics()
    model = SSI(WORDS, 2)
    answers = iter([7.0, 3.0, 5.0])
    seen = []

    def check() -> float:
        seen.append(model.get_weights()[0].copy())
        return next(answers)

    settings = FineTuning(30, 0.1, check_every=10)
    fine_tune(model, bags, bags, TupleBatches(relevant, batch_size=64), settings, check=check)
    assert len(seen) == 3
    np.testing.assert_array_equal(model.get_weights()[0], seen[1])


def test_training_ends_when_every_tuple_keeps_its_margin():
    pages = sparse.csr_matrix(np.kron(np.eye(2, dtype=np.float32), np.ones((3, 2), np.float32)))
    relevant = same_class(["a"] * 3 + ["b"] * 3)
    settings = FineTuning(500, 0.1, weight_decay=0.0, check_every=10)
    losses = fine_tune(SSI(4, 2), pages, pages, TupleBatches(relevant), settings)
    assert not any(losses[-10:])
    assert len(losses) < 500


def test_one_seed_trains_the_same_model():
    bags, relevant = topics()
    weights = []
    for _ in range(2):
        model = DSEPair(WORDS, 2)
        pretrain(model.query_tower, bags, Pretraining(steps=10))
        fine_tune(model, bags, bags, TupleBatches(relevant), FineTuning(10))
        weights.append(model.get_weights())
    for first, second in zip(*weights, strict=True):
        np.testing.assert_array_equal(first, second)


def test_an_rbm_that_diverges_stops_with_the_step_and_the_cause():
    bags, _ = topics()
    tower = DSE(WORDS, 2)
    tower.build()
    message = (
        r"RBM 4 of 4 \(gaussian\) diverged at step \d+ of 400: its largest weight is .*"
        "The learning rate 50 is too high"
    )
    with pytest.raises(UserError, match=message):
        pretrain(tower, bags, Pretraining(steps=400, gaussian_learning_rate=50))


def test_fine_tuning_that_diverges_stops_with_the_step_and_the_cause():
    bags, relevant = topics()
    with pytest.raises(UserError, match=r"diverged at step \d+: the loss is (nan|inf)"):
        fine_tune(
            SSI(WORDS, 2), bags, bags, TupleBatches(relevant),
            FineTuning(200, 1e12, clip_norm=None),
        )  # fmt: skip


def test_a_last_update_that_breaks_the_weights_is_no_model():
    """The loss was of the weights before."""
    bags, relevant = topics()
    with pytest.raises(UserError, match="diverged at step 1: a weight is not a finite number"):
        fine_tune(
            SSI(WORDS, 2), bags, bags, TupleBatches(relevant),
            FineTuning(1, 1e30, weight_decay=1e30),
        )  # fmt: skip


def test_inputs_that_no_visible_unit_can_take_are_refused():
    bags, _ = topics()
    tower = DSE(WORDS, 2)
    tower.build()
    with pytest.raises(UserError, match="visible units take 0 to 1"):
        pretrain(tower, (bags * 3).tocsr(), Pretraining())
    bags.data[0] = np.nan
    with pytest.raises(UserError, match="RBM inputs go from"):
        pretrain(tower, bags, Pretraining())


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="sgd, adam"):
        FineTuning(optimizer="rprop")
