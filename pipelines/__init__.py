"""Click logs to training records with Apache Beam, on one machine or on any runner.

May import text, tables and common, and of data what needs no TensorFlow, so that workers start in a
second and stay small; `tfds_builder` alone, which no worker runs, loads TensorFlow.
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
