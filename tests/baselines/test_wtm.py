"""The word translation model: one score by hand."""

import math

import pytest

from dssm_tf.baselines.wtm import WTM

TITLES = ["red hat", "red red shoe", "blue box"]


def test_a_score_by_hand():
    # One step of EM on one pair: "crimson" and "hat" each come half from "red" and half from
    # "hat", so both rows have 1/2 for each. In "red hat" P(crimson | D) = 0 and its translations
    # have 1/2, so |D| P_mx = 2 * .75 * 1/2. No title contains "crimson": half an occurrence among
    # 7 words.
    model = WTM(mu=4.0, self_weight=0.25, iterations=1).fit(
        [("crimson hat", "red hat", 1.0)], TITLES
    )
    expected = math.log((2 * 0.75 * 0.5 + 4 * 0.5 / 7) / (2 + 4))
    assert model.score("crimson", TITLES)[0] == pytest.approx(expected, rel=1e-12)
    # "hat" once among 7 words and once in the title: .25 of its own, .75 translated.
    expected = math.log((2 * (0.25 * 0.5 + 0.75 * 0.5) + 4 / 7) / (2 + 4))
    assert model.score("hat", TITLES)[0] == pytest.approx(expected, rel=1e-12)
    # Two of the three words of the second title are "red": 3 * .75 * 2/3 * 1/2.
    expected = math.log((3 * 0.75 * (2 / 3) * 0.5 + 4 * 0.5 / 7) / (3 + 4))
    assert model.score("crimson", TITLES)[1] == pytest.approx(expected, rel=1e-12)
