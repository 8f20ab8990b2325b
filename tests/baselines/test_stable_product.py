import numpy as np
from pytest import approx

from dssm_tf.baselines.stable_product import stable_product


def test_it_is_the_product():
    random = np.random.default_rng(0)
    left, right = random.normal(size=(7, 50)), random.normal(size=(50, 9))
    assert stable_product(left, right) == approx(left @ right, rel=1e-12, abs=1e-12)


def test_a_number_is_the_same_to_the_last_bit_alone_and_in_company():
    random = np.random.default_rng(0)
    left, right = random.normal(size=(33, 101)), random.normal(size=(101, 67))
    whole = stable_product(left, right)
    for row, column in ((0, 0), (32, 66), (5, 40)):
        assert (
            stable_product(left[row : row + 1], right[:, column : column + 1])[0, 0]
            == (whole[row, column])
        )


def test_empty_matrices_give_empty_or_zero_ones():
    assert stable_product(np.zeros((0, 3)), np.ones((3, 2))).shape == (0, 2)
    assert (stable_product(np.zeros((2, 0)), np.zeros((0, 3))) == np.zeros((2, 3))).all()
