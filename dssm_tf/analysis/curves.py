"""The curves of trained runs: loss, or another metric, epoch by epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.model.run_files import HISTORY


def read_history(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run's first training, one dict an epoch.

    Raises:
        UserError: the run has no history, or a damaged one.
    """
    try:
        history: list[dict[str, Any]] = json.loads((run / HISTORY).read_text("utf-8"))
    except OSError as error:
        raise UserError(
            f"{run / HISTORY} cannot be read ({error.strerror}); give a directory that "
            "`dssm train` finished."
        ) from None
    except ValueError as error:
        raise UserError(f"{run / HISTORY} is damaged: {error}.") from None
    return history
