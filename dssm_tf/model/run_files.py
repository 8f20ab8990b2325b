"""The files of a run: names, reading and writing titles and query ids, checksums."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array
from dssm_tf.common.checksums import CHECKSUMS, check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import read_json
from dssm_tf.data.format import SPEC, VOCABULARY, Spec, Title
from dssm_tf.tables.writer import write_table
from dssm_tf.text.training_log import TrainingLog

CONFIG = "config.yaml"
TITLES = "titles.tsv"
WEIGHTS = "model.weights.h5"
QUERY_IDS = "query_ids.npy"
PAIR_IDS = "pair_ids.npy"
EXTRA = "assets.extra"  # folder of an export that has copies of some of the run's files
RANKING = "ranking.json"
HISTORY = "history.json"
VERSIONS = "versions.json"
MODEL_CARD = "MODEL_CARD.md"
EARLIER_RUN = "earlier_run.json"
STATE = "state"
FREQUENCIES = "document_frequencies.json"  # of a model that compares words

_CHECKED = (CONFIG, SPEC, VOCABULARY, TITLES, WEIGHTS, QUERY_IDS, RANKING, HISTORY)

_MAX_RANKING_BYTES = 1 << 16  # usually about 1,000
_REBUILD_HINT = "Copy the run again, or train it again."
LARGEST_WEIGHT = 1e6  # of the log-prior


def read_ranking(path: Path) -> dict[str, Any]:
    """Reads `ranking.json` of a run and checks its numbers.

    Returns:
        `prior_weight`, `validation`, and other entries.

    Raises:
        UserError: the file is damaged, or a number is missing or out of its range.
    """
    ranking = read_json(path, _REBUILD_HINT, _MAX_RANKING_BYTES)
    validation = ranking.get("validation", {}) if isinstance(ranking, dict) else None
    if not isinstance(validation, dict):
        raise UserError(
            f"{path}: expected a JSON object in which validation is an object. {_REBUILD_HINT}"
        )
    check_number(path, "prior_weight", ranking.get("prior_weight"), 0.0, LARGEST_WEIGHT)
    largest = float(np.finfo(np.float32).max)
    check_number(path, "cutoff", validation.get("cutoff", -1.0), -largest, largest)
    return ranking


def check_number(path: Path, name: str, value: object, low: float, high: float) -> None:
    """Raises UserError unless a value of a file is a number from `low` to `high`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise UserError(
            f"{path}: {name} is {reprlib.repr(value):.40}; expected a number from {low:g} to "
            f"{high:g}. {_REBUILD_HINT}"
        )


def mark_finished(run: Path) -> None:
    """Writes the checksums of a run's files. This is the last step of a training."""
    write_checksums(run, _files(run))


def is_finished(run: Path) -> bool:
    """Whether the training has ended."""
    return (run / CHECKSUMS).exists()


def load_titles(directory: Path) -> list[Title]:
    """The titles of a run, most clicked first."""
    from dssm_tf.tables import columns  # imports Arrow, so only when needed
    from dssm_tf.tables.read import read

    schema = [columns.unchanged("title"), columns.count("clicks"), columns.count("queries")]
    rows = read(Path(directory) / TITLES, schema)
    return [*map(Title._make, rows.select("title", "clicks", "queries").iter_rows())]


def save_titles(titles: Iterable[Title], path: Path) -> None:
    """Writes titles for `load_titles`: the most clicked first, ties by text."""
    write_table(path, ("title", "clicks", "queries"), (map(str, title) for title in titles))


def training_query_ids(run: Path) -> NDArray[np.int64]:
    """The ids of all queries that a finished run was trained on, increasing; see `TextRules.id`.

    Raises:
        UserError: the file is missing or damaged.
    """
    return _ids(run / QUERY_IDS)


def training_pair_ids(run: Path) -> NDArray[np.int64] | None:
    """The ids of all pairs of query and title that a finished run was trained on, increasing.

    None if the directory has no such file: exports and runs of earlier versions have none.

    Raises:
        UserError: the file is damaged.
    """
    return _ids(run / PAIR_IDS) if (run / PAIR_IDS).exists() else None


def training_log(directory: Path) -> TrainingLog | None:
    """The ids of a model's training log; None if its directory has none.

    Args:
        directory: a finished run, or the directory of an export that has copies of its files.

    Raises:
        UserError: a file is damaged.
    """
    if not (directory / QUERY_IDS).exists():
        return None
    rules = Spec.load(directory).rules
    return TrainingLog(rules, training_query_ids(directory), training_pair_ids(directory))


def _ids(path: Path) -> NDArray[np.int64]:
    ids: NDArray[np.int64] = map_array(path, _REBUILD_HINT)
    if ids.ndim != 1 or ids.dtype != np.int64:
        raise UserError(f"{path} is {ids.dtype} {ids.shape}; expected ids. {_REBUILD_HINT}")
    return ids


def check_run(run: Path) -> None:
    """Compares the files of a finished run with their recorded checksums.

    Raises:
        UserError: a file is missing, damaged or was changed.
    """
    check_files(run, _files(run), _REBUILD_HINT)


def _files(run: Path) -> tuple[str, ...]:
    """The files of a run that have a checksum."""
    optional = [name for name in (EARLIER_RUN, FREQUENCIES, PAIR_IDS) if (run / name).exists()]
    return (*_CHECKED, *optional)
