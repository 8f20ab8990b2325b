"""The models, versions and the index that a server has at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dssm_tf.common.model_versions import newest_version, versions_in
from dssm_tf.export.load import load_model
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.server.limits import NOT_FOUND, Refusal

if TYPE_CHECKING:
    from dssm_tf.retrieval.opening import AnyIndex

WARM_UP_QUERY = "wizard of oz"
"""A query that is computed before a model or an index is served, because the first one is slow."""


class ServedModel(NamedTuple):
    """A served model.

    Attributes:
        name: its name in requests.
        version: the number of its version.
        ranker: computes scores, and vectors if the model has them.
    """

    name: str
    version: int
    ranker: TrainedRanker


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The models and the index of a server at one moment. A request uses one snapshot only.

    Attributes:
        versions: the models by name and version.
        labels: version numbers by label.
        failures: the messages about versions that could not be loaded, by name and version.
        index: the index of searches, and its model; None if the server has no index.
    """

    versions: Mapping[str, Mapping[int, ServedModel]]
    labels: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    index: tuple[AnyIndex, ServedModel] | None = None

    @classmethod
    def from_models(cls, models: Iterable[ServedModel], index: AnyIndex | None = None) -> Snapshot:
        """A snapshot of some models, and of an index, whose model is one of them."""
        versions: dict[str, dict[int, ServedModel]] = {}
        for model in models:
            versions.setdefault(model.name, {})[model.version] = model
        if index is None:
            return cls(versions)
        same_name = versions.get(index.model.name)
        model = (
            max(same_name.values()) if same_name else ServedModel(index.model.name, 1, index.model)
        )
        return cls(versions, index=(index, model))

    @property
    def rankers(self) -> dict[tuple[str, int], int]:
        """The `id()` of each ranker by name and version; equal if the same models are served."""
        return {
            (name, version): id(model.ranker)
            for name, versions in self.versions.items()
            for version, model in versions.items()
        }

    @property
    def models(self) -> list[ServedModel]:
        """The newest version of each model."""
        return [models[max(models)] for models in self.versions.values()]

    def versions_of(self, name: str) -> Mapping[int, ServedModel]:
        """The versions of a model; raises Refusal if there is none."""
        if name not in self.versions:
            raise Refusal(
                NOT_FOUND,
                f"no model {name!r:.100} is served; choose from "
                f"{', '.join(sorted(self.versions))}.",
            )
        return self.versions[name]

    def find(self, name: str, version: int = 0, label: str = "") -> ServedModel:
        """A version of a model.

        Args:
            name: the name of the model.
            version: the number of the version; 0 for the newest.
            label: the label of the version instead; empty for none.

        Raises:
            Refusal: no such model or version is served.
        """
        versions = self.versions_of(name)
        if label:
            version = self.labels.get(label, -1)
            if version not in versions:
                raise Refusal(NOT_FOUND, f"version {label:.100} of {name} is not served.")
        elif not version:
            version = max(versions)
        if version not in versions:
            raise Refusal(NOT_FOUND, f"version {version} of {name} is not served.")
        return versions[version]


def open_models(path: Path) -> list[ServedModel]:
    """Loads the newest version of each model in a directory.

    Args:
        path: a run, or an output of `dssm export`: `OUT` with several models, `OUT/NAME` with its
            versions, or `OUT/NAME/VERSION`.

    Raises:
        UserError: the directory has no model, or a file is damaged.
    """
    return [load_version(*version) for version in newest_versions(path)]


class ModelVersion(NamedTuple):
    """A version of a model: the name of the model, the number of the version, its directory."""

    name: str
    number: int
    directory: Path


def newest_versions(path: Path, others: Sequence[int] = ()) -> list[ModelVersion]:
    """The newest version of each model in a directory.

    Args:
        path: see `open_models`.
        others: numbers of older versions to add for each model that has them.
    """
    path = path.absolute()
    versions = []
    # Names that begin with a dot are unfinished or replaced outputs.
    candidates = (path, *sorted(path.glob("[!.]*")))
    for directory in [folder for folder in candidates if versions_in(folder)] or [path]:
        newest = newest_version(directory)
        is_numbered = newest.name.isdecimal()
        name = newest.parent.name if is_numbered else newest.name
        versions.append(ModelVersion(name, int(newest.name) if is_numbered else 1, newest))
        for number in others:
            older = versions_in(directory).get(number, newest)
            if older != newest and older.is_dir():
                versions.append(ModelVersion(name, number, older))
    return versions


def load_version(name: str, version: int, directory: Path) -> ServedModel:
    """Loads a version of a model and warms it up.

    Raises:
        UserError: the directory has no model, or a file is damaged.
    """
    ranker = load_model(directory)
    texts = ["", "a", "x" * 1000, WARM_UP_QUERY]
    ranker.score_matrix(texts, texts)
    return ServedModel(name, version, ranker)
