"""Loads a ranker from a directory of any kind. Compact models are loaded without TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import local_path
from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.data.format import SPEC, Spec
from dssm_tf.model.run_files import CONFIG, EXTRA, training_log
from dssm_tf.runtime.compact_files import COMPACT, INDEX_MODEL
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.runtime.vector_ranker import VectorRanker, require_vectors
from dssm_tf.tables.layout import TITLE

if TYPE_CHECKING:
    from dssm_tf.baselines.base import Baseline


_MARKER_FILES = {"run": CONFIG, "export": "saved_model.pb", "compact": COMPACT}
"""For each kind of trained model, a file that only directories of this kind contain."""


class ModelLocation(NamedTuple):
    """Directory and kind of a trained model.

    Attributes:
        kind: `run`, `export` (a SavedModel) or `compact`.
        path: directory of the run, or of a version of an export.
        in_index: whether it is the compact model of a search index.
    """

    kind: str
    path: Path
    in_index: bool = False

    @property
    def run_files(self) -> Path:
        """The directory of the run's files; for an export, of the copies of some of them."""
        return self.path / EXTRA if self.kind == "export" else self.path


def find_model(path: Path) -> ModelLocation | None:
    """Finds the run, export or compact model of a directory; None if there is none.

    Args:
        path: a run; a version of an export; a model, whose newest version is taken; or a
            directory with exactly one model.
    """
    version = newest_version(path)
    for kind, file in _MARKER_FILES.items():
        if (version / file).exists():
            return ModelLocation(kind, version)
    models = [directory for directory in path.glob("*") if versions_in(directory)]
    return find_model(models[0]) if len(models) == 1 else None


def find_model_or_index(path: Path) -> ModelLocation | None:
    """Finds the model of a directory as `find_model` does, or the model of a search index.

    Args:
        path: see `find_model`; or a directory that `dssm index` wrote.
    """
    location = find_model(path)
    if location is None and (path / INDEX_MODEL / COMPACT).exists():
        return ModelLocation("compact", path / INDEX_MODEL, in_index=True)
    return location


def model_title_fields(*models: Path) -> tuple[str, ...]:
    """The columns that are joined to a title in the training data of a model.

    Args:
        models: directories. The first that contains a trained model determines the result; without
            any, it is `title`.
    """
    for location in map(find_model, models):
        if location is not None and (location.run_files / SPEC).exists():
            return Spec.load(location.run_files).title_fields
    return (TITLE,)


def load(path: Path | str, name: str | None = None) -> TrainedRanker | Baseline[Any]:
    """Loads a ranker: a trained model, that of a search index, or a saved baseline.

    Args:
        path: see `dssm_tf.load`.
        name: see `dssm_tf.load`.

    Returns:
        The ranker that `dssm_tf.load` wraps.

    Raises:
        UserError: see `dssm_tf.load`.
    """
    path = local_path(path)
    location = find_model_or_index(path)
    if location is None:
        from dssm_tf.systems import BASELINES

        # A baseline may read files without its name, such as skip-thought's weights.
        requested_baseline = name if path.is_dir() else None
        baselines = [
            baseline
            for baseline in BASELINES
            if (path / f"{baseline}.npz").exists() or baseline == requested_baseline
        ]
        if len(baselines) == 1:
            return BASELINES[baselines[0]].load(path)
        problem = "contains no trained model" if path.exists() else "does not exist"
        hint = ""
        if (path / SPEC).exists():
            hint = " It was written by `dssm preprocess`: train on it first."
        raise UserError(
            f"{path} {problem}; expected a directory that `dssm train` or `dssm export` "
            f"wrote.{hint}"
        )
    ranker = _load_ranker(location)
    ranker.training_log = training_log(location.run_files)
    if name or not (location.in_index or location.kind == "run"):
        ranker.name = name or location.path.resolve().parent.name
    return ranker


def _load_ranker(location: ModelLocation) -> TrainedRanker:
    """Loads a trained model, importing only the libraries that its kind needs."""
    if location.kind == "compact":
        from dssm_tf import runtime

        return runtime.load(location.path)
    load_tensorflow()
    if location.kind == "run":
        from dssm_tf.model.load_run import load_run

        return load_run(location.path)
    from dssm_tf.export.saved_model import load_export

    return load_export(location.path)


def load_model(path: Path | str) -> TrainedRanker:
    """Loads a trained model: a run, an export or a compact model; see `load`.

    Raises:
        UserError: see `load`; or the directory has a baseline.
    """
    ranker = load(path)
    if not isinstance(ranker, TrainedRanker):
        raise UserError(f"{path} is a baseline; give a trained model.")
    return ranker


def apply_rules(ranker: object, path: Path | None) -> object:
    """A model with a file of rules by hand, which replace earlier rules.

    Args:
        ranker: the model.
        path: the file, see `dssm_tf.runtime.search_rules`; None for no change.

    Raises:
        UserError: the model does not have the score maxsim, or a rule is not valid.
    """
    if path is None:
        return ranker
    if not isinstance(ranker, MaxSimRanker):
        raise UserError(f"{path} cannot be applied: rules are for models with the score maxsim.")
    return ranker.with_rules(read_rules(path, ranker.vocabulary))


def load_vector_ranker(path: Path | str) -> VectorRanker:
    """Loads a trained model that has a vector for each text; see `load`.

    Raises:
        UserError: see `load`; or the model or baseline has no vectors.
    """
    return require_vectors(load(path), path)
