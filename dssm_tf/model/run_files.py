"""The files of a run: their names, and whether it is finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array
from dssm_tf.common.checksums import CHECKSUMS, check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.data.format import SPEC, VOCABULARY, Spec, Title
from dssm_tf.tables.writer import write_table

CONFIG = "config.yaml"
TITLES = "titles.tsv"
WEIGHTS = "model.weights.h5"
QUERY_IDS = "query_ids.npy"
EXTRA = "assets.extra"  # where an export has copies of its run's files
RANKING = "ranking.json"
HISTORY = "history.json"
VERSIONS = "versions.json"
MODEL_CARD = "MODEL_CARD.md"
EARLIER_RUN = "earlier_run.json"
STATE = "state"

_CHECKED = (CONFIG, SPEC, VOCABULARY, TITLES, WEIGHTS, QUERY_IDS, RANKING, HISTORY)

_AGAIN = "Copy the run again, or train it again."


def mark_finished(run: Path) -> None:
    """Writes the checksums of a run's files, which is the last thing a training does."""
    write_checksums(run, _files(run))


def is_finished(run: Path) -> bool:
    """Whether the training came to its end."""
    return (run / CHECKSUMS).exists()


def load_titles(directory: Path) -> list[Title]:
    """The titles of a run, most clicked first."""
    from dssm_tf.tables import columns  # not before Arrow is needed
    from dssm_tf.tables.read import read

    wanted = [columns.raw("title"), columns.count("clicks"), columns.count("queries")]
    rows = read(Path(directory) / TITLES, wanted)
    return [*map(Title._make, rows.select("title", "clicks", "queries").iter_rows())]


def save_titles(titles: Iterable[Title], path: Path) -> None:
    """Writes what `load_titles` reads, most clicked first, ties by text."""
    ranked = sorted(titles, key=lambda one: (-one.clicks, one.text))
    write_table(path, ("title", "clicks", "queries"), (map(str, one) for one in ranked))


def known_queries(run: Path) -> NDArray[np.int64]:
    """The id of every query of the log that a finished run learned from, increasing.

    Raises:
        UserError: the file is missing or damaged.
    """
    ids: NDArray[np.int64] = map_array(run / QUERY_IDS, _AGAIN)
    if ids.ndim != 1 or ids.dtype != np.int64:
        raise UserError(f"{run / QUERY_IDS} is {ids.dtype} {ids.shape}; expected ids. {_AGAIN}")
    return ids


def were_learned(queries: Sequence[str], run: Path) -> NDArray[np.bool_]:
    """Whether a finished run learned from queries, `(queries,)`."""
    return np.isin(Spec.load(run).rules.column(queries), known_queries(run))


def check_run(run: Path) -> None:
    """Compares the files of a finished run with what the training wrote.

    Raises:
        UserError: a file is missing, damaged or was changed.
    """
    check_files(run, _files(run), _AGAIN)


def _files(run: Path) -> tuple[str, ...]:
    """What a finished run holds; one that went on from another says so in one more file."""
    return (*_CHECKED, EARLIER_RUN) if (run / EARLIER_RUN).exists() else _CHECKED
