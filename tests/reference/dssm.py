"""DSSM in float64: the text's bag of letter trigrams through tanh layers.

Reference: Huang et al. 2013; Shen et al. 2014.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def encode(bags: Array, layers: Sequence[tuple[Array, Array]]) -> Array:
    """Semantic vectors `(texts, width)` of `bags` `(texts, trigrams)`.

    Args:
        bags: trigram counts of whole texts; a text without words has the zero vector.
        layers: matrix `(inputs, units)` and bias `(units,)` of each tanh layer.
    """
    vectors = bags
    for matrix, bias in layers:
        vectors = np.tanh(vectors @ matrix + bias)
    return vectors * bags.any(axis=1, keepdims=True)
