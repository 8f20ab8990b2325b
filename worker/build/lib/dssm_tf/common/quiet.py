"""Keeps TensorFlow's start-up chatter off the terminal."""

from __future__ import annotations

import logging
import os
import sys


def quieten() -> None:
    """Has TensorFlow's C++ say nothing, unless the environment says otherwise.

    A command begins with it: JAX, which bm25s imports where it is installed, sets a level, too.
    """
    if not os.environ.get("DSSM_DEBUG"):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def load_tensorflow() -> None:
    """Imports TensorFlow without the lines that its C++ writes to standard error meanwhile.

    No setting stops these; so nothing is written there while the import runs. What comes later
    follows `TF_CPP_MIN_LOG_LEVEL`, here 3 unless it is set: failures reach Python as exceptions.
    `DSSM_DEBUG=1` leaves all as it is.
    """
    if "tensorflow" in sys.modules or os.environ.get("DSSM_DEBUG"):
        return
    quieten()
    sys.stderr.flush()
    terminal, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow  # noqa: F401
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        os.close(nowhere)
    for name in ("tensorflow", "absl"):  # only now: in a notebook the import sets its own level
        logging.getLogger(name).setLevel(logging.ERROR)
