"""Beam pipelines: click logs to training records, and texts to vectors, on any runner.

Nothing here imports TensorFlow or Keras: workers start in a second and stay small.
"""

from __future__ import annotations

import logging


def _import_beam_quietly() -> None:
    """Imports Beam without its warning that the Google Cloud extra is not installed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        import apache_beam  # noqa: F401
    finally:
        logging.disable(before)


_import_beam_quietly()
