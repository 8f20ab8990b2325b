"""Labels of a batch's candidates for tests of losses."""

from __future__ import annotations

from typing import Any

import numpy as np


def labels(mask: Any, correction: Any = 0.0, clicked: int = 0) -> dict[str, np.ndarray]:
    """Labels with the given mask `(batch, columns)`.

    Args:
        mask: which candidates count.
        correction: `(batch, columns)` or a number.
        clicked: column of the clicked title.
    """
    mask = np.asarray(mask, bool)
    targets = np.zeros(mask.shape, np.float32)
    targets[:, clicked] = 1
    return {
        "mask": mask,
        "correction": np.broadcast_to(np.asarray(correction, np.float32), mask.shape),
        "targets": targets,
    }


def unmasked_labels(scores: Any) -> dict[str, np.ndarray]:
    """Labels for scores `(batch, columns)` if every candidate counts."""
    return labels(np.ones(np.shape(scores)))
