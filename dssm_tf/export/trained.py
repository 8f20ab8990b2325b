"""A trained model in whichever of its three forms; a compact one loads no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.model.run_files import CONFIG
from dssm_tf.runtime.compact_files import COMPACT

if TYPE_CHECKING:
    from dssm_tf.export.exported_ranker import ExportedRanker
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.runtime.ranker import Ranker

Kind = Literal["run", "export", "compact"]


class Place(NamedTuple):
    """Where a trained model lies, and as what.

    Attributes:
        kind: what `dssm train` wrote, or what `dssm export` did, in which format.
        path: of the run, or of the version of an export.
        name: of the run's or the model's directory.
    """

    kind: Kind
    path: Path
    name: str


def find_trained(path: Path) -> Place | None:
    """Looks for a run or an export: a version, a model with its newest, or `OUT` with one model.

    Args:
        path: any directory; one with several models is none.
    """
    if (path / CONFIG).exists():
        return Place("run", path, path.resolve().name)
    version = newest_version(path)
    name = (path.resolve() if version != path else path.resolve().parent).name
    kinds: dict[str, Kind] = {"saved_model.pb": "export", COMPACT: "compact"}
    for file, kind in kinds.items():
        if (version / file).exists():
            return Place(kind, version, name)
    models = [one for one in path.glob("*") if versions_in(one)]
    return find_trained(models[0]) if len(models) == 1 else None


def load_trained(place: Place, name: str | None = None) -> SemanticRanker | ExportedRanker | Ranker:
    """Loads what `find_trained` found.

    Args:
        place: where it lies.
        name: what tables call it; by default a run's tower, or the model's directory.

    Raises:
        UserError: the training has not come to its end, or a file was damaged or changed.
    """
    if place.kind == "compact":
        from dssm_tf.runtime.ranker import Ranker

        ranker = Ranker.load(place.path)
        ranker.name = name or place.name
        return ranker
    load_tensorflow()
    if place.kind == "run":
        from dssm_tf.model.semantic_ranker import SemanticRanker

        return SemanticRanker.load(place.path, name)
    from dssm_tf.export.exported_ranker import ExportedRanker

    return ExportedRanker(place.path, name or place.name)
