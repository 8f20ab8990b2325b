"""Imports TensorFlow without its messages and without libraries that it does not need here."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dssm_tf.common.tensorflow_log import quieten


def load_tensorflow(with_plots: bool = True) -> None:
    """Imports TensorFlow without the lines that its C++ code writes to standard error.

    No setting turns these lines off, so standard error is discarded during the import. Later lines
    follow `TF_CPP_MIN_LOG_LEVEL`, which becomes 3 if it is not set; failures still reach Python as
    exceptions. With `DSSM_DEBUG=1` nothing is suppressed.

    TensorFlow Lite imports JAX where it is installed, only to convert models of JAX. That takes
    100 MB and half a second, so JAX is hidden during the import, unless it is imported already or
    is Keras's backend.

    Args:
        with_plots: whether Keras's functions that plot work in this process. If not, matplotlib and
            IPython are hidden too, unless they are imported already: 44 MB and a second less.
    """
    if "tensorflow" in sys.modules or os.environ.get("DSSM_DEBUG"):
        return
    quieten()
    sys.stderr.flush()
    stderr, null_device = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, 2)
    try:
        with _hidden(_unneeded_libraries(with_plots)):
            import tensorflow  # noqa: F401
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null_device)
    for name in ("tensorflow", "absl"):  # after the import, which sets a level in a notebook
        logging.getLogger(name).setLevel(logging.ERROR)


def _unneeded_libraries(with_plots: bool) -> list[str]:
    """The libraries to hide while TensorFlow is imported; see `load_tensorflow`."""
    keras_home = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"))
    backend = os.environ.get("KERAS_BACKEND", "")
    if not backend:
        with suppress(OSError):
            backend = (keras_home / "keras.json").read_text("utf-8")
    names = [] if with_plots else ["matplotlib", "IPython"]
    return names if "jax" in backend else [*names, "jax"]


@contextmanager
def _hidden(names: Iterable[str]) -> Iterator[None]:
    """Makes the import of libraries fail for a while, except of those that are imported already."""
    names = [name for name in names if name not in sys.modules]
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]  # the documented way
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
