"""Where models lie, and which version answers; a newer one takes over once it has proved itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dssm_tf.common.boundary import one_line
from dssm_tf.common.model_versions import versions_in
from dssm_tf.export.load import load_model
from dssm_tf.runtime.vector_ranker import VectorRanker

_LOG = logging.getLogger("dssm_tf.server")


def open_ranker(directory: Path) -> VectorRanker:
    """Loads a version of a model and lets it answer, so that no user waits for its first time.

    Raises:
        UserError: it is no model, or a file of it is damaged.
    """
    ranker = load_model(directory)
    texts = ["", "a", "x" * 1000, "wizard of oz"]
    ranker.score_matrix(texts, texts)
    return ranker


class Version(NamedTuple):
    """A version that answers."""

    number: int
    ranker: VectorRanker


@dataclass
class Model:
    """A model by its name, with one version that answers.

    That is the newest of its directory that can be loaded. Requests hold the version they began
    with, so an older one goes when its last request is answered.

    Args:
        name: what clients call it.
        directory: which holds its versions by number; or the only one.
        version: the number of the only one; None looks for them.
        load: opens one; raises what it likes.

    Attributes:
        current: the version that answers.
        states: its number, with "", and those of versions that failed, with why.
    """

    name: str
    directory: Path
    version: int | None = None
    load: Callable[[Path], VectorRanker] = open_ranker
    current: Version | None = None
    states: dict[int, str] = field(default_factory=dict)
    _failed: dict[int, int] = field(default_factory=dict)  # when its files had changed

    def look(self) -> None:
        """Looks for the newest version that can be loaded, and lets it answer from now on.

        One that failed is tried again when its files have changed: it may still have been copied.

        Raises:
            OSError: a file cannot be read now; what answers stays.
        """
        for number, directory in self.versions().items():
            if self.current is not None and number == self.current.number:
                return
            changed = max((one.stat().st_ctime_ns for one in directory.rglob("*")), default=0)
            if self._failed.get(number) == changed:
                continue
            try:
                self.current = Version(number, self.load(directory))
            except Exception as error:  # damaged files raise almost any kind
                reason = one_line(error) or f"{type(error).__name__}: {error}"
                self._failed[number], self.states[number] = changed, reason
                _LOG.error("%s version %d is not served: %s", self.name, number, reason)
                continue
            failed = {one: error for one, error in self.states.items() if error}
            self.states = failed | {number: ""}
            _LOG.info("%s version %d answers: %s", self.name, number, directory)
            return

    def versions(self) -> dict[int, Path]:
        """The versions that lie there now, newest first."""
        if self.version is not None:
            return {self.version: self.directory}
        numbers = sorted(versions_in(self.directory), reverse=True)
        return {number: self.directory / str(number) for number in numbers}


def find_models(path: Path) -> list[Model]:
    """The models of a directory.

    Args:
        path: what `dssm export` wrote, `OUT` with several models, `OUT/NAME` with its versions or
            `OUT/NAME/VERSION`; or a run.
    """
    path = path.absolute()
    inside = [one for one in (path, *sorted(path.glob("*"))) if versions_in(one)]
    if inside:
        return [Model(one.name, one) for one in inside]
    if path.name.isdecimal():
        return [Model(path.parent.name, path, int(path.name))]
    return [Model(path.name, path, 1)]
