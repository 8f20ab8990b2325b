"""Whatever a directory holds as a ranker; a compact model loads no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dssm_tf.common.errors import UserError
from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.data.format import SPEC, Spec
from dssm_tf.model.run_files import CONFIG, EXTRA
from dssm_tf.runtime.compact_files import COMPACT
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.tables.layout import TITLE

if TYPE_CHECKING:
    from dssm_tf.baselines.base import Baseline


_MARKER_FILES = {"run": CONFIG, "export": "saved_model.pb", "compact": COMPACT}
"""For each kind of trained model, a file that only its directory has."""


class ModelLocation(NamedTuple):
    """Where a trained model lies, and as what.

    Attributes:
        kind: `run`, or of what `dssm export` wrote `export` (a SavedModel) or `compact`.
        path: of the run, or of the version of an export.
    """

    kind: str
    path: Path

    @property
    def run_files(self) -> Path:
        """The directory with the files of the run, or with copies of some."""
        return self.path / EXTRA if self.kind == "export" else self.path


def find_model(path: Path) -> ModelLocation | None:
    """Looks for a run or an export: a version, a model with its newest, or `OUT` with one model.

    Args:
        path: any directory; one with several models is none.
    """
    version = newest_version(path)
    for kind, file in _MARKER_FILES.items():
        if (version / file).exists():
            return ModelLocation(kind, version)
    models = [one for one in path.glob("*") if versions_in(one)]
    return find_model(models[0]) if len(models) == 1 else None


def model_title_fields(*models: Path) -> tuple[str, ...]:
    """The columns that made up the titles which a model learned from, or `title`.

    Args:
        models: the first that is a run or an export decides; others do not know.
    """
    found = [place.run_files for place in map(find_model, models) if place is not None]
    for files in found:
        if (files / SPEC).exists():
            return Spec.load(files).title_fields
    return (TITLE,)


def load(path: Path | str, name: str | None = None) -> VectorRanker | Baseline[Any]:
    """Loads a ranker: a run, an export, a compact model or a saved baseline.

    Args:
        path: what `dssm train`, `dssm export` or a baseline's `save` wrote. Of an export or a
            compact model either a version's directory, or the model's, whose newest version is
            taken.
        name: what tables call it; the tower's name, or the model's directory, by default. Of a
            baseline which one it is, where the directory does not tell.

    Returns:
        The ranker. A run and an export load TensorFlow, which takes seconds; a compact model loads
        NumPy alone.

    Raises:
        UserError: there is no such directory, it holds no model, the training has not come to its
            end, or a file was damaged or changed.
    """
    path = Path(path)
    if (place := find_model(path)) is None:
        from dssm_tf.systems import BASELINES

        # The name says which baseline reads other files, such as skip-thought's weights.
        named = name if path.is_dir() else None
        saved = [
            baseline
            for baseline in BASELINES
            if (path / f"{baseline}.npz").exists() or baseline == named
        ]
        if len(saved) == 1:
            return BASELINES[saved[0]].load(path)
        what = "holds no trained model" if path.exists() else "does not exist"
        hint = ""
        if (path / SPEC).exists():
            hint = " It was written by `dssm preprocess`: train on it first."
        raise UserError(
            f"{path} {what}; expected a directory that `dssm train` or `dssm export` wrote.{hint}"
        )
    ranker = _load_ranker(place)
    if name or place.kind != "run":
        ranker.name = name or place.path.resolve().parent.name
    return ranker


def _load_ranker(place: ModelLocation) -> VectorRanker:
    """Loads a trained model with the libraries that its kind needs, and no others."""
    if place.kind == "compact":
        from dssm_tf.runtime import Ranker

        return Ranker.load(place.path)
    load_tensorflow()
    if place.kind == "run":
        from dssm_tf.model.semantic_ranker import SemanticRanker

        return SemanticRanker.load(place.path)
    from dssm_tf.export.saved_model import ExportedRanker

    return ExportedRanker(place.path)


def load_model(path: Path | str, name: str | None = None) -> VectorRanker:
    """Loads what has vectors: a run, an export or a compact model; see `load`."""
    ranker = load(path, name)
    if not isinstance(ranker, VectorRanker):
        raise UserError(f"{path} is a baseline, which has no vectors; give a trained model.")
    return ranker
