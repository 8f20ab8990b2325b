"""The table of what weighted clicks bring back."""

from __future__ import annotations

from tests.benchmarks.position_bias import NAIVE, WEIGHTED, table


def seed(unbiased: float, naive: float, weighted: float):
    return {
        (0, NAIVE): [unbiased] * 3,
        (0, WEIGHTED): [unbiased] * 3,
        (1, NAIVE): [naive] * 3,
        (1, WEIGHTED): [weighted] * 3,
    }


def test_the_share_is_of_the_mean_loss():
    lines = list(table([seed(0.8, 0.6, 0.75), seed(0.9, 0.5, 0.8)], first_seed=4))
    # Lost .2 and .4, brought back .15 and .3.
    assert "| of the loss at eta 1 comes back | 75% | 75% | 75% |" in lines
    assert "| seed 5 alone | 75% | 75% | 75% |" in lines
    assert "| eta 1, naive | 0.550 ± 0.050 | 0.550 ± 0.050 | 0.550 ± 0.050 |" in lines
