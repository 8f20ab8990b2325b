"""CLSM in float64 by Shen et al. 2014, sec. 3: one text, one window of words at a time.

Letter-trigram vectors `f` are dense, `(trigrams + 1,)`: the last entry counts the padding word
`<s>`, whose trigrams occur in no other word. Matrices act on column vectors: `W_c` is
`(K, window * (trigrams + 1))`, the semantic matrices are `(outputs, inputs)`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def windows(counts: Array, window: int) -> Array:
    """`l_t`, Shen et al. 2014, eq. 1: `(words, window * (trigrams + 1))`.

    Args:
        counts: `(words, trigrams)`, the trigram counts of the text's words.
        window: n = 2 d + 1.
    """
    words, trigrams = counts.shape
    d = (window - 1) // 2
    f = np.zeros((d + words + d, trigrams + 1))
    f[:, -1] = 1.0  # <s> at the beginning and the end ...
    f[d : d + words, -1] = 0.0  # ... and the words between
    f[d : d + words, :-1] = counts
    return np.array([np.concatenate(f[t : t + window]) for t in range(words)])


def local_features(w_c: Array, counts: Array, window: int) -> Array:
    """`h_t`, Shen et al. 2014, eq. 2: `(words, K)`."""
    return np.array([np.tanh(w_c @ l_t) for l_t in windows(counts, window)])


def encode(w_c: Array, w_s: Sequence[Array], counts: Array, window: int) -> Array:
    """`y` of sec. 3.5, with further semantic matrices if given; zero for a text without words."""
    if not len(counts):
        return np.zeros(len(w_s[-1]))
    v = local_features(w_c, counts, window).max(axis=0)
    for matrix in w_s:
        v = np.tanh(matrix @ v)
    return v


def cosine_gradient_of_w_c(
    w_c: Array,
    w_s: Array,
    counts: Array,
    window: int,
    v_y: Array,
) -> Array:
    """One side's term of dR / dW_c: Shen et al. 2014, eq. 13 to 16, `(K, window * (trigrams + 1))`.

    The formula after eq. 16 is for row i of `W_c`: the error of feature i times the window with
    its maximum.

    Args:
        w_c: convolution matrix.
        w_s: the one semantic matrix.
        counts: the text's words.
        window: n.
        v_y: dR / dy of this side, `b c y_D - a c b^3 y_Q` of eq. 13.
    """
    h = local_features(w_c, counts, window)
    v = h.max(axis=0)
    y = np.tanh(w_s @ v)
    delta_y = (1 - y) * (1 + y) * v_y
    delta_v = (1 + v) * (1 - v) * (w_s.T @ delta_y)
    windows_of_maxima = h.argmax(axis=0)
    return delta_v[:, None] * windows(counts, window)[windows_of_maxima]
