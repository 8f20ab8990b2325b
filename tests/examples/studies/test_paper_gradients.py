"""`examples.studies.paper_gradients` on a small untrained run."""

import re

import numpy as np
import pytest
import tensorflow as tf

from examples.studies.paper_gradients import OneGateCell, main
from tests.clicks import click_log, write_data
from tests.components import TOWER_CONFIGS, small_sizes
from tests.layers.cells import assign_parameters
from tests.reference.lstm_gradients import printed_gradients
from tests.reference.peephole_lstm import LSTMParameters, states
from tests.runs import finished_run


@pytest.mark.parametrize("peepholes", [True, False])
@pytest.mark.parametrize("forget_gate", [True, False])
def test_a_cell_of_one_gate_has_the_gradients_of_the_appendix(peepholes, forget_gate):
    p = LSTMParameters.random(trigrams=4, cells=3, seed=1)
    if not peepholes:
        p.p1, p.p2, p.p3 = (np.zeros(3) for _ in range(3))
    if not forget_gate:  # f(t) = 1, whatever the words are
        for name in ("w2", "rec2", "p2"):
            setattr(p, name, 0 * getattr(p, name))
        p.b2 = np.full(3, 800.0)
    random = np.random.default_rng(5)
    words, v = random.poisson(1.0, (4, 4)).astype(float), random.normal(size=3)
    expected = printed_gradients(p, words, v, errors_of_earlier_words=True)
    gates = (1, 2, 3, 4) if forget_gate else (1, 3, 4)
    for block, gate in enumerate(gates):
        kind = type("OneGate", (OneGateCell,), {"gate": block})
        cell = kind(3, peepholes=peepholes, forget_gate=forget_gate, dtype="float64")
        assign_parameters(cell, p)
        kernel = tf.Variable(p.concatenated("w", forget_gate))
        with tf.GradientTape() as tape:
            state = cell.get_initial_state(1)
            for word in words:
                y, state = cell(tf.constant(word[None]) @ kernel, state)
            value = tf.reduce_sum(y * v)
        plain = states(p, words, peepholes=peepholes, forget_gate=forget_gate)
        np.testing.assert_allclose(y[0], plain[-1][0], atol=1e-14)
        variables = [kernel, cell.recurrent_kernel.value, cell.bias.value]
        for name, gradient in zip(("w", "rec", "b"), tape.gradient(value, variables), strict=True):
            blocks = np.split(gradient.numpy(), len(gates), axis=-1)
            np.testing.assert_allclose(
                blocks.pop(block), expected[f"{name}{gate}"].T, atol=1e-13, err_msg=f"{name}{gate}"
            )
            assert not np.any(blocks)


@pytest.mark.slow
def test_the_gradients_of_the_paper_differ_from_the_full_gradients(tmp_path, capsys):
    data = write_data(tmp_path / "data", click_log(), validation=())
    tower = {"name": "lstm", **small_sizes(TOWER_CONFIGS["lstm"])}
    run = finished_run(tmp_path / "run", data, {"tower": tower})
    main(["--model", str(run)])
    pattern = r"(untrained|trained): cosine (\S+) with eq. 16 to 42 alone, (\S+) with eq. 16 to 44"
    cosines = re.findall(pattern, capsys.readouterr().out)
    assert [name for name, *_ in cosines] == ["untrained", "trained"]
    for _, alone, complete in cosines:
        assert 0.5 < float(alone) < float(complete) < 1
