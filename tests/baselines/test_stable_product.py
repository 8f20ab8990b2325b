import numpy as np

from dssm_tf.baselines.stable_product import stable_product


def test_a_number_is_the_same_to_the_last_bit_alone_and_in_company():
    random = np.random.default_rng(0)
    left, right = random.normal(size=(33, 101)), random.normal(size=(101, 67))
    whole = stable_product(left, right)
    for row, column in ((0, 0), (32, 66), (5, 40)):
        assert (
            stable_product(left[row : row + 1], right[:, column : column + 1])[0, 0]
            == (whole[row, column])
        )
