"""Detects a process that was forked after a model of TensorFlow had been loaded."""

from __future__ import annotations

import os

from dssm_tf.common.errors import UserError


class ForkCheck:
    """Remembers the process that loaded a model.

    TensorFlow's threads do not exist in a forked process, so its functions wait there forever.
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def __call__(self, name: str) -> None:
        """Raises UserError in a process that was forked from the one that loaded the model.

        Args:
            name: the model's name.
        """
        if os.getpid() != self._process:
            raise UserError(
                f"{name} was loaded before this process was forked, and TensorFlow does not work "
                "in forked processes. Load the model in each process, start processes with the "
                "method 'spawn', or use a compact model, which needs no TensorFlow (dssm export "
                "--format compact)."
            )
