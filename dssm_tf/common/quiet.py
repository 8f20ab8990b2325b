"""Imports TensorFlow without its messages and without JAX."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dssm_tf.common.tensorflow_log import quieten


def load_tensorflow() -> None:
    """Imports TensorFlow without the lines that its C++ code writes to standard error.

    No setting turns these lines off, so standard error is discarded during the import. Later lines
    follow `TF_CPP_MIN_LOG_LEVEL`, which becomes 3 if it is not set; failures still reach Python as
    exceptions. With `DSSM_DEBUG=1` nothing is suppressed.

    TensorFlow Lite imports JAX where it is installed, only to convert models of JAX. That takes
    100 MB and half a second, so JAX is hidden during the import, unless it is Keras's backend.
    """
    if "tensorflow" in sys.modules or os.environ.get("DSSM_DEBUG"):
        return
    quieten()
    sys.stderr.flush()
    stderr, null_device = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, 2)
    try:
        with _jax_hidden():
            import tensorflow  # noqa: F401
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null_device)
    for name in ("tensorflow", "absl"):  # after the import, which sets a level in a notebook
        logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def _jax_hidden() -> Iterator[None]:
    """Makes `import jax` fail for a while, unless it is imported already or is Keras's backend."""
    keras_home = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"))
    backend = os.environ.get("KERAS_BACKEND", "")
    if not backend:
        with suppress(OSError):
            backend = (keras_home / "keras.json").read_text("utf-8")
    if "jax" in sys.modules or "jax" in backend:
        yield
        return
    sys.modules["jax"] = None  # type: ignore[assignment]  # the documented way
    try:
        yield
    finally:
        sys.modules.pop("jax", None)
