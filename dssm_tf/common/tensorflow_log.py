"""The level of TensorFlow's log; this module imports nothing heavy, so Beam workers have it too."""

from __future__ import annotations

import os


def quieten() -> None:
    """Turns off the log of TensorFlow's C++ code, unless the environment sets a log level.

    Commands call this first, because JAX also sets the level if bm25s imports it.
    """
    if not os.environ.get("DSSM_DEBUG"):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
