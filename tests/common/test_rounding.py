"""Parts of a score are rounded so that they add up to the rounded score."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.common.rounding import rounded_parts


def test_shown_parts_add_up_to_the_shown_score():
    # Rounded separately, .812 - .313 = .499. The similarity loses .0004, the prior .0002.
    assert rounded_parts({"similarity": 0.8124, "prior": -0.3128}, 0.4996, 3) == {
        "similarity": 0.813,
        "prior": -0.313,
    }


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=5))
def test_rounded_parts_add_up_and_are_within_one_unit(numbers):
    parts = {str(row): number for row, number in enumerate(numbers)}
    rounded = rounded_parts(parts, sum(numbers), 3)
    assert sum(rounded.values()) == approx(round(sum(numbers), 3), abs=1.1e-3 / 2)
    assert all(abs(rounded[name] - parts[name]) <= 1e-3 + 1e-9 for name in parts)
