"""`python -m tests.benchmarks.observations`: what it does to models, prints and draws."""

from __future__ import annotations

import io

import keras
import numpy as np
import pytest
import tensorflow as tf
from pytest import approx

from dssm_tf.model.text_features import TextFeatures
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.lstm import LSTMRNN
from tests.benchmarks import intervals as figures
from tests.benchmarks.observations import STOP_WORDS, contrasts
from tests.benchmarks.observed_runs import hold
from tests.benchmarks.observed_tables import number, show

TEXT = "the wizard of oz"
VOCABULARY = Vocabulary(
    dict.fromkeys(n for word in TEXT.split() for n in letter_ngrams(word)), FOLDED
)


@pytest.mark.parametrize(("gate", "place"), [("i", 2), ("f", 1)])
def test_a_gate_that_is_held_still_is_the_same_at_every_word_and_the_others_are_not(gate, place):
    keras.utils.set_random_seed(0)
    tower = LSTMRNN(VOCABULARY.size, 3, peephole_initializer="ones")
    tower.build()
    texts = TextFeatures(VOCABULARY)(tf.constant([TEXT]))
    before = tower.activations(texts)["recurrence"]
    hold(tower, place, np.array([0.2, 0.5, 0.9]))
    after = {
        name: values.numpy()[0] for name, values in tower.activations(texts)["recurrence"].items()
    }
    assert after.pop(gate) == approx(np.tile([0.2, 0.5, 0.9], (4, 1)), abs=1e-6)
    (other,) = {"i", "f"} & set(after)
    # Before the first word all is zero, so what another gate says there is its own.
    assert after[other][0] == approx(before[other].numpy()[0, 0], abs=1e-6)
    assert (np.ptp(after[other], axis=0) > 1e-3).all()


def test_stop_words_are_those_of_the_list_in_words_of_the_package():
    assert {"the", "of", "what", "don", "t"} <= STOP_WORDS
    assert not any("'" in word for word in STOP_WORDS)
    found = dict(contrasts("cost", [(TEXT.split(), np.array([1.0, 5.0, 2.0, 4.0]))]))
    assert found["cost: stop words"] == approx(1.5)
    assert found["cost: other words"] == approx(4.5)
    assert found["cost: lower"] == 1


def test_a_number_is_a_mean_with_half_its_interval():
    # s = .01, t(.975, 2) = 4.3027: 4.3027 * .01 / sqrt(3) = .0248.
    assert number([0.14, 0.15, 0.16]) == ".150 ± .025"
    assert number([-0.5]) == "-.500"
    assert number([]) == number([np.nan]) == ""


def rows():
    for seed, value in enumerate((0.2, 0.3, 0.4)):
        for length in (2, 4):
            yield "bestbuy", "lstm", seed, f"first word of {length}: influence", value / length
        yield "bestbuy", "lstm", seed, "occlusion: stop words", value
        yield "bestbuy", "lstm", seed, "occlusion: other words", 2 * value


def test_tables_and_figures_show_the_same_numbers(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.update({path.name: figure}))
    printed = io.StringIO()
    show(list(rows()), tmp_path, printed)
    # s = .1 and .1 / 2 and so on; 4.3027 * .1 / sqrt(3) = .2484.
    assert "| bestbuy | lstm | .300 ± .248 | .600 ± .497 |" in printed.getvalue()
    assert "| bestbuy | lstm | .150 ± .124 | .075 ± .062 |" in printed.getvalue()
    (axis,) = drawn["first_word.png"].axes
    assert axis.get_title() == "bestbuy"
    lines = {bar.get_label(): bar.lines[0].get_xydata() for bar in axis.containers}
    assert lines["lstm"] == approx(np.array([[2, 0.15], [4, 0.075]]))
    assert lines["an equal share"] == approx(np.array([[2, 0.5], [4, 0.25]]))
    (low, high), _ = axis.containers[0].lines[2][0].get_segments()
    assert (high[1] - low[1]) / 2 == approx(4.302653 * 0.05 / np.sqrt(3))
    (axis,) = drawn["stop_words.png"].axes
    assert [label.get_text() for label in axis.get_xticklabels()] == ["occlusion"]
    assert axis.containers[0].lines[0].get_ydata() == approx([0.5])
