"""Pretraining: the paper's updates, layer by layer, and errors."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from dssm_tf.common.errors import UserError
from dssm_tf.dse import networks
from dssm_tf.dse.networks import DSETower
from dssm_tf.dse.pretraining import pretrain
from dssm_tf.dse.rbm import RBM
from dssm_tf.dse.settings import Pretraining
from tests.dse.topics import WORDS, randomize, topics
from tests.reference import dse as reference
from tests.reference.rbm import Machine


def as_machine(rbm: RBM) -> Machine:
    weights = (rbm.kernel, rbm.visible_bias, rbm.hidden_bias)
    return Machine(*(weight.numpy() for weight in weights), rbm.hidden_kind == "gaussian")


@pytest.fixture
def batches(monkeypatch):
    """The training batches of each RBM, by its name; without sampling and without compilation."""
    inputs: dict[str, list[np.ndarray]] = {}

    def means(self, visible):
        inputs.setdefault(self.name, []).append(np.array(visible, np.float64))
        return self.visible_mean(self.hidden_mean(visible))

    monkeypatch.setattr(RBM, "gibbs", means)
    tf.config.run_functions_eagerly(True)
    yield inputs
    tf.config.run_functions_eagerly(False)


def test_updates_of_every_layer_equal_the_paper_s_on_means_of_the_layer_below(batches, monkeypatch):
    """By default momentum is 0.9 and weight decay 1e-4; all layers have the same order of texts."""
    monkeypatch.setattr(networks, "_ROWS", 7)  # the means of 60 texts are computed in nine blocks
    bags = topics()
    tower = DSETower(WORDS, 2, widths=(5, 4), dtype="float64")
    randomize(tower)
    machines = [as_machine(rbm) for rbm in tower.rbms]
    pretrain(tower, bags, Pretraining(steps=9, batch_size=16))
    texts = bags.toarray().astype(np.float64)
    expected_batches = batches["rbm_0"]
    assert [len(batch) for batch in expected_batches] == [16] * 9
    for rbm, start, rate in zip(tower.rbms, machines, (0.1, 0.1, 0.01), strict=True):
        np.testing.assert_allclose(batches[rbm.name], expected_batches, rtol=1e-6)
        # Visible biases start at the log odds of the mean inputs.
        frequency = np.clip(texts.mean(axis=0), 0.01, 0.99)
        start = Machine(start.W, np.log(frequency / (1 - frequency)), start.c, start.gaussian)
        expected = reference.train_rbm(start, expected_batches, rate)
        for name in "Wbc":
            np.testing.assert_allclose(
                getattr(as_machine(rbm), name), getattr(expected, name), rtol=1e-6, atol=1e-7
            )
        texts = expected.hidden_mean(texts)
        expected_batches = [expected.hidden_mean(batch) for batch in expected_batches]


def test_each_pass_reads_every_text_once(batches):
    bags = sparse.identity(WORDS, dtype=np.float32).tocsr()
    pretrain(DSETower(WORDS, 2, widths=()), bags, Pretraining(steps=6, batch_size=4))
    words = np.concatenate([batch.argmax(axis=1) for batch in batches["rbm_0"]])
    assert [sorted(part) for part in np.split(words, 2)] == [list(range(WORDS))] * 2


def test_pretraining_raises_the_likelihood_of_the_words():
    tower = DSETower(WORDS, 2)
    states = []
    pretrain(tower, topics(), Pretraining(steps=60), callback=states.append)
    assert len(states) == 4 * 60
    names = [state.partition(" (")[0] for state in states[::60]]
    assert names == [f"RBM {number} of 4" for number in (1, 2, 3, 4)]
    assert all("log p" in state for state in states[59::60])
    likelihood = float(tower.rbms[0].pseudo_log_likelihood(topics().toarray()))
    # Without learning, each of the 12 words costs log 2 nats.
    assert likelihood > -WORDS * np.log(2)


def test_lower_layers_do_not_depend_on_the_dimension_and_can_be_reused():
    bags, settings, states = topics(), Pretraining(steps=10), []
    full, other, smaller = (DSETower(WORDS, dimension) for dimension in (3, 3, 2))
    pretrain(full, bags, settings)
    pretrain(smaller, bags, settings)
    for rbm, trained in zip(other.rbms[:-1], smaller.rbms, strict=False):
        rbm.set_weights(trained.get_weights())
    pretrain(other, bags, settings, first=3, callback=states.append)
    assert len(states) == 10
    for rbm, expected in zip(other.rbms, [*smaller.rbms[:-1], full.rbms[-1]], strict=True):
        np.testing.assert_allclose(rbm.kernel, expected.kernel, atol=1e-6)


def test_a_diverging_rbm_stops_with_the_step_and_the_cause():
    message = (
        r"RBM 4 of 4 \(gaussian\) diverged at step \d+ of 400: .* learning rate 50 is too high"
    )
    with pytest.raises(UserError, match=message):
        pretrain(DSETower(WORDS, 2), topics(), Pretraining(steps=400, gaussian_learning_rate=50))


def test_inputs_outside_0_to_1_are_rejected():
    bags = topics()
    with pytest.raises(UserError, match="expected 0 to 1"):
        pretrain(DSETower(WORDS, 2), (bags * 3).tocsr(), Pretraining())
    bags.data[0] = np.nan
    with pytest.raises(UserError, match="RBM inputs go from"):
        pretrain(DSETower(WORDS, 2), bags, Pretraining())
