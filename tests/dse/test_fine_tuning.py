"""Fine-tuning: the paper's updates, learning, repeats, model choice, divergence."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse import fine_tuning
from dssm_tf.dse.fine_tuning import LinkTask, fine_tune
from dssm_tf.dse.networks import DSEPair, SSIPair, margin_rank
from dssm_tf.dse.settings import FineTuning
from dssm_tf.dse.tuple_batches import TupleBatches
from examples.dse_cora import same_class
from tests.dse.topics import TEXTS, WORDS, randomize, topics
from tests.reference import dse as reference


def pages() -> LinkTask:
    """One page per text; pages of the same topic are linked."""
    bags = topics()
    relevant = same_class([str(page % 3) for page in range(TEXTS)])
    return LinkTask(bags, bags, relevant, relevant)


def test_the_hinge_loss_is_the_mean_over_tuples():
    scores = tf.constant([[2.0, 1.5, 1.2], [9.0, 0.0, 3.0], [4.0, 9.0, 9.0]])
    mask = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])  # two tuples, one, none
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = margin_rank(scores, mask)
    # max(0, 1 - 2 + 1.5), max(0, 1 - 2 + 1.2) and max(0, 1 - 0 + 3).
    assert float(value) == pytest.approx((0.5 + 0.2 + 4) / 3)
    # Wu et al. 2014, eq. 19, a mean over three tuples: minus for the relevant title, plus for
    # the irrelevant.
    expected = np.array([[-2, 1, 1], [0, -1, 1], [0, 0, 0]]) / 3
    np.testing.assert_allclose(tape.gradient(value, scores).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("longest", [None, 0.03])  # gradients have lengths of 0.018 to 0.042
def test_updates_equal_the_paper_s_with_momentum_weight_decay_and_cosine_schedule(longest):
    """By default momentum is 0.9, and weight decay is 1e-4 for matrices and 0 for biases."""
    task = pages()
    model = DSEPair(WORDS, 2, widths=(5, 4), dtype="float64")
    randomize(model)
    machines = model.query_tower.rbms
    kernels = [rbm.kernel.numpy() for rbm in machines]
    biases = [rbm.hidden_bias.numpy() for rbm in machines]
    settings = FineTuning(6, 0.5, batch_size=8, clip_norm=longest)
    losses = fine_tune(model, task, settings, seed=3)
    texts = task.queries.toarray().astype(np.float64)
    batches = [
        (texts[batch.queries], texts[batch.titles], batch.is_irrelevant)
        for batch in islice(TupleBatches(task.train, task.known, batch_size=8, seed=3), 6)
    ]
    first = [reference.activities(kernels, biases, side)[-1] for side in batches[0][:2]]
    assert losses[0] == pytest.approx(reference.margin_loss(first[0] @ first[1].T, batches[0][2]))
    expected = reference.fine_tuned(kernels, biases, batches, 0.5, longest or np.inf)
    for rbm, kernel, bias in zip(machines, *expected, strict=True):
        np.testing.assert_allclose(rbm.kernel, kernel, atol=1e-6)
        np.testing.assert_allclose(rbm.hidden_bias, bias, atol=1e-6)


def test_the_weights_with_the_least_validation_loss_are_restored(monkeypatch):
    task = pages()
    task = replace(task, validation=task.train.copy())
    model = SSIPair(WORDS, 2)
    validation_losses = iter([7.0, 3.0, 5.0])
    evaluated = []

    def fake_rank_loss(scores, links, ignored) -> float:
        assert links is task.validation
        evaluated.append(model.get_weights()[0].copy())
        return next(validation_losses)

    monkeypatch.setattr(fine_tuning, "rank_loss", fake_rank_loss)
    fine_tune(model, task, FineTuning(30, 0.1, batch_size=64, check_every=10))
    assert len(evaluated) == 3
    np.testing.assert_array_equal(model.get_weights()[0], evaluated[1])


def test_training_ends_when_every_tuple_keeps_its_margin():
    bags = sparse.csr_matrix(np.kron(np.eye(2, dtype=np.float32), np.ones((3, 2), np.float32)))
    relevant = same_class(["a"] * 3 + ["b"] * 3)
    settings = FineTuning(500, 0.1, weight_decay=0.0, check_every=10)
    losses = fine_tune(SSIPair(4, 2), LinkTask(bags, bags, relevant, relevant), settings)
    assert not any(losses[-10:])
    assert len(losses) < 500


def test_diverging_fine_tuning_stops_with_the_step_and_the_cause():
    with pytest.raises(UserError, match=r"diverged at step \d+: the loss is (nan|inf)"):
        fine_tune(SSIPair(WORDS, 2), pages(), FineTuning(200, 1e12, clip_norm=None))
    # The last loss belongs to the weights before the last update.
    with pytest.raises(UserError, match="diverged at step 1: a weight is not a finite number"):
        fine_tune(SSIPair(WORDS, 2), pages(), FineTuning(1, 1e30, weight_decay=1e30))
