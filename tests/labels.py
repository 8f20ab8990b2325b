"""What a loss is told of a batch's candidates, the clicked one in column 0."""

from __future__ import annotations

from typing import Any

import numpy as np


def labels(mask: Any, correction: Any = 0.0, clicked: int = 0) -> dict[str, np.ndarray]:
    """Labels of a mask `(batch, columns)`, without a correction if none is given."""
    mask = np.asarray(mask, bool)
    targets = np.zeros(mask.shape, np.float32)
    targets[:, clicked] = 1
    return {
        "mask": mask,
        "correction": np.broadcast_to(np.asarray(correction, np.float32), mask.shape),
        "targets": targets,
    }


def unmasked_labels(scores: Any) -> dict[str, np.ndarray]:
    """Labels of plain candidates for scores `(batch, columns)`."""
    return labels(np.ones(np.shape(scores)))
