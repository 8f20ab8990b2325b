"""Pretraining: the paper's updates, layer upon layer, and what stops it."""

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
from tests.dse.topics import WORDS, shake, topics
from tests.reference import dse as reference
from tests.reference.rbm import Machine


def as_machine(rbm: RBM) -> Machine:
    weights = (rbm.kernel, rbm.visible_bias, rbm.hidden_bias)
    return Machine(*(weight.numpy() for weight in weights), rbm.hidden_kind == "gaussian")


@pytest.fixture
def batches(monkeypatch):
    """What each RBM is taught from, batch by batch; nothing is sampled, and nothing compiled."""
    seen: dict[str, list[np.ndarray]] = {}

    def means(self, visible):
        seen.setdefault(self.name, []).append(np.array(visible, np.float64))
        return self.visible_mean(self.hidden_mean(visible))

    monkeypatch.setattr(RBM, "gibbs", means)
    tf.config.run_functions_eagerly(True)
    yield seen
    tf.config.run_functions_eagerly(False)


def test_every_layer_follows_the_paper_on_the_means_of_the_one_below(batches, monkeypatch):
    """Momentum 0.9 and weight decay 1e-4 by default; the texts come in one order in all layers."""
    monkeypatch.setattr(networks, "_ROWS", 7)  # means of 60 texts are taken in nine parts
    bags = topics()
    tower = DSETower(WORDS, 2, widths=(5, 4), dtype="float64")
    shake(tower)
    machines = [as_machine(rbm) for rbm in tower.rbms]
    pretrain(tower, bags, Pretraining(steps=9, batch_size=16))
    texts = bags.toarray().astype(np.float64)
    expected_batches = batches["rbm_0"]
    assert [len(batch) for batch in expected_batches] == [16] * 9
    for rbm, start, rate in zip(tower.rbms, machines, (0.1, 0.1, 0.01), strict=True):
        np.testing.assert_allclose(batches[rbm.name], expected_batches, rtol=1e-6)
        often = np.clip(texts.mean(axis=0), 0.01, 0.99)
        start = Machine(start.W, np.log(often / (1 - often)), start.c, start.gaussian)
        expected = reference.taught(start, expected_batches, rate)
        for name in "Wbc":
            np.testing.assert_allclose(
                getattr(as_machine(rbm), name), getattr(expected, name), rtol=1e-6, atol=1e-7
            )
        texts = expected.hidden_mean(texts)
        expected_batches = [expected.hidden_mean(batch) for batch in expected_batches]


def test_each_round_passes_over_every_text_once(batches):
    bags = sparse.identity(WORDS, dtype=np.float32).tocsr()
    pretrain(DSETower(WORDS, 2, widths=()), bags, Pretraining(steps=6, batch_size=4))
    words = np.concatenate([batch.argmax(axis=1) for batch in batches["rbm_0"]])
    assert [sorted(part) for part in np.split(words, 2)] == [list(range(WORDS))] * 2


def test_it_makes_the_words_likelier():
    tower = DSETower(WORDS, 2)
    states = []
    pretrain(tower, topics(), Pretraining(steps=60), callback=states.append)
    assert len(states) == 4 * 60
    names = [state.partition(" (")[0] for state in states[::60]]
    assert names == [f"RBM {number} of 4" for number in (1, 2, 3, 4)]
    assert all("log p" in state for state in states[59::60])
    likelihood = float(tower.rbms[0].pseudo_log_likelihood(topics().toarray()))
    # Independent fair words would have 12 log 2 nats; biases alone have their frequency.
    assert likelihood > -WORDS * np.log(2)


def test_lower_layers_can_be_taken_over_since_they_do_not_know_c():
    bags, settings, states = topics(), Pretraining(steps=10), []
    whole, other, smaller = (DSETower(WORDS, dimension) for dimension in (3, 3, 2))
    pretrain(whole, bags, settings)
    pretrain(smaller, bags, settings)
    for ours, theirs in zip(other.rbms[:-1], smaller.rbms, strict=False):
        ours.set_weights(theirs.get_weights())
    pretrain(other, bags, settings, first=3, callback=states.append)
    assert len(states) == 10
    for ours, theirs in zip(other.rbms, [*smaller.rbms[:-1], whole.rbms[-1]], strict=True):
        np.testing.assert_allclose(ours.kernel, theirs.kernel, atol=1e-6)


def test_an_rbm_that_diverges_stops_with_the_step_and_the_cause():
    message = (
        r"RBM 4 of 4 \(gaussian\) diverged at step \d+ of 400: .* learning rate 50 is too high"
    )
    with pytest.raises(UserError, match=message):
        pretrain(DSETower(WORDS, 2), topics(), Pretraining(steps=400, gaussian_learning_rate=50))


def test_inputs_that_no_visible_unit_can_take_are_refused():
    bags = topics()
    with pytest.raises(UserError, match="visible units take 0 to 1"):
        pretrain(DSETower(WORDS, 2), (bags * 3).tocsr(), Pretraining())
    bags.data[0] = np.nan
    with pytest.raises(UserError, match="RBM inputs go from"):
        pretrain(DSETower(WORDS, 2), bags, Pretraining())
