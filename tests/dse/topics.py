"""Bags of words with three topics that a model can learn."""

from __future__ import annotations

import numpy as np
from scipy import sparse

TEXTS, WORDS = 60, 12


def topics() -> sparse.csr_matrix:
    """Texts that alternate between three topics, each with four frequent words."""
    random = np.random.default_rng(0)
    topic = np.arange(TEXTS) % 3
    frequency = np.where(np.arange(WORDS)[None] // 4 == topic[:, None], 0.7, 0.15)
    return sparse.csr_matrix((random.random((TEXTS, WORDS)) < frequency).astype(np.float32))


def randomize(layer) -> None:
    """Sets random weights that are large enough to make every term matter."""
    random = np.random.default_rng(1)
    layer.set_weights([random.normal(0, 0.7, weight.shape) for weight in layer.get_weights()])
