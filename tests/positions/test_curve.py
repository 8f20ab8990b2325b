"""Curves as files, and the weights that follow from them."""

from __future__ import annotations

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.positions.curve import ExaminationCurve, read_curve, write_curve


def table(tmp_path, *rows):
    path = tmp_path / "curve.tsv"
    path.write_text("\n".join(["position\tpropensity", *rows]) + "\n", "utf-8")
    return path


def test_reading_a_written_curve_restores_it(tmp_path):
    curve = ExaminationCurve((1.0, 0.5, 0.25), ((1.0, 1.0), (0.4, 0.6), (0.2, 0.3)), "harvesting")
    write_curve(tmp_path / "curve.tsv", curve)
    assert (tmp_path / "curve.tsv").read_text("utf-8").splitlines()[2] == "2\t0.5\t0.4\t0.6"
    assert read_curve(tmp_path / "curve.tsv").propensities == curve.propensities


def test_absolute_propensities_become_relative_to_the_first(tmp_path):
    assert read_curve(table(tmp_path, "1\t0.8", "2\t0.2")).propensities == (1.0, 0.25)


def test_weights_are_clipped_inverse_propensities_in_thousandths():
    # 1 / 0.3 = 3.333...; 1 / 0.01 = 100, clipped to 10.
    curve = ExaminationCurve((1.0, 0.3, 0.01))
    assert curve.weights(max_weight=10) == (1000, 3333, 10_000)
    # An unknown position (0) has weight 1; a position after the last has the last one's weight.
    assert curve.click_weights(np.array([2, 0, 9, 1]), max_weight=10).tolist() == [
        3333,
        1000,
        10_000,
        1000,
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0\t1"], ":2 has position 0; expected 1"),
        (["1\t1", "3\t0.5"], ":3 has position 3; expected 2"),
        (["1\t1", "2\t0"], "propensity '0'; expected a number above 0 and at most 1"),
        (["1\t1.01"], "propensity '1.01'; expected"),
        (["1\tnan"], "not a number"),
        (["1\t0.5", "2\t0.6"], ":3 has propensity 0.6; expected at most that of position 1, 0.5"),
        ([], "no row"),
    ],
)
def test_an_invalid_curve_is_rejected_with_one_line(tmp_path, rows, message):
    with pytest.raises(UserError, match=r"curve\.tsv") as error:
        read_curve(table(tmp_path, *rows))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
