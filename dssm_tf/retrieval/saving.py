"""Writes a search index with its model: the directory is complete, or not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.paths import AnyPath
from dssm_tf.export.compact import copy_compact, set_remembered_clicks, set_search_rules
from dssm_tf.runtime.compact_files import INDEX_MODEL
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker


def save_with_model(
    directory: AnyPath, model: AnyPath, ranker: object, write: Callable[[Path], None]
) -> None:
    """Writes an index and its compact model into a new directory.

    If writing fails, no directory is left.

    Args:
        directory: directory to write; it must not exist.
        model: directory of the run or the compact model that the index was built with.
        ranker: the model, with its rules by hand and remembered clicks.
        write: writes the files of the index into a directory.

    Raises:
        UserError: `directory` exists, `model` is neither a run nor a compact model, or the files
            cannot be written.
    """
    refuse_existing(Path(directory))
    with atomic_directory(directory) as folder:
        copy_compact(Path(model), folder / INDEX_MODEL)
        if isinstance(ranker, MaxSimRanker):
            set_search_rules(folder / INDEX_MODEL, ranker.search_rules.text)
            set_remembered_clicks(folder / INDEX_MODEL, ranker.remembered_clicks)
        write(folder)
