"""Bags of words of three topics that a model can find."""

from __future__ import annotations

import numpy as np
from scipy import sparse

TEXTS, WORDS = 60, 12


def topics() -> sparse.csr_matrix:
    """Texts of three topics in turn, each with its own four words most of the time."""
    random = np.random.default_rng(0)
    topic = np.arange(TEXTS) % 3
    often = np.where(np.arange(WORDS)[None] // 4 == topic[:, None], 0.7, 0.15)
    return sparse.csr_matrix((random.random((TEXTS, WORDS)) < often).astype(np.float32))


def shake(layer) -> None:
    """Gives a layer weights of ordinary size, so that no term is near 0."""
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(0, 0.7, w.shape) for w in layer.get_weights()])
