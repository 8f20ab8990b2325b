"""A product of matrices whose entries do not depend on its shape."""

import numpy as np

from dssm_tf.baselines.stable_product import stable_product


def test_an_entry_is_bitwise_equal_in_a_product_of_any_shape():
    random = np.random.default_rng(0)
    left, right = random.normal(size=(33, 101)), random.normal(size=(101, 67))
    full = stable_product(left, right)
    for row, column in ((0, 0), (32, 66), (5, 40)):
        assert (
            stable_product(left[row : row + 1], right[:, column : column + 1])[0, 0]
            == full[row, column]
        )
