"""Where models lie, and which version answers; a newer one takes over once it has proved itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dssm_tf.common.boundary import one_line
from dssm_tf.common.errors import UserError
from dssm_tf.export.load import find_model, load_model
from dssm_tf.runtime.vector_ranker import VectorRanker

_LOG = logging.getLogger("dssm_tf.server")
# What every model must answer before it counts; the second time has other shapes than the first.
_PROBES = (["wizard of oz"], ["", "a", "x" * 1000, "wizard of oz"])


def open_ranker(directory: Path) -> VectorRanker:
    """Loads a version of a model and lets it answer, so that no user waits for its first time.

    Raises:
        UserError: it is no model, a file of it is damaged, or its vectors are not finite.
    """
    ranker = load_model(directory)
    for texts in _PROBES:
        for encode in (ranker.encode_queries, ranker.encode_titles):
            if not np.isfinite(encode(texts, prior=True)).all():
                raise UserError(
                    f"{directory}: {encode.__name__} answers what is not finite. Export it again."
                )
    return ranker


class Version(NamedTuple):
    """A version that answers."""

    number: int
    ranker: VectorRanker


class State(NamedTuple):
    """What became of a version: `LOADING`, `AVAILABLE` or `END`, and why it failed if it did."""

    name: str
    error: str = ""


class Model:
    """A model by its name, with one version that answers.

    That is the newest of its directory that can be loaded. Requests hold the version they began
    with, so an older one goes when its last request is answered.

    Args:
        name: what clients call it.
        directory: which holds its versions by number; or the only one.
        version: the number of the only one; None looks for them.
        load: opens one; raises what it likes.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        version: int | None = None,
        load: Callable[[Path], VectorRanker] = open_ranker,
    ) -> None:
        self.name, self.directory = name, directory
        self.current: Version | None = None
        self._version, self._load = version, load
        self._states: dict[int, State] = {}
        self._failed: dict[int, Any] = {}

    def states(self) -> dict[int, State]:
        """The versions that were there since the start, newest first."""
        return dict(sorted(self._states.copy().items(), reverse=True))

    def look(self) -> None:
        """Looks for the newest version that can be loaded, and lets it answer from now on.

        One that failed is tried again when its files have changed: it may still have been copied.

        Raises:
            OSError: the directory cannot be read now; what answers goes on.
        """
        for number, directory in self.versions().items():
            if self.current is not None and number == self.current.number:
                return
            stamp = _stamp(directory)
            if number in self._failed and self._failed[number] == stamp:
                continue
            if self._try(number, directory):
                return
            self._failed[number] = stamp

    def versions(self) -> dict[int, Path]:
        """The versions that lie there now, newest first."""
        if self._version is not None:
            return {self._version: self.directory}
        return {one: self.directory / str(one) for one in _numbers(self.directory)}

    def _try(self, number: int, directory: Path) -> bool:
        self._states[number] = State("LOADING")
        before = self.current
        try:
            self.current = Version(number, self._load(directory))
        except Exception as error:  # damaged files raise almost any kind
            reason = one_line(error) or f"{type(error).__name__}: {error}"
            self._states[number] = State("END", reason)
            kept = f"; version {before.number} goes on" if before else ""
            _LOG.error("%s version %d is not served%s: %s", self.name, number, kept, reason)
            return False
        self._states[number] = State("AVAILABLE")
        if before is not None:
            self._states[before.number] = State("END")
        self._failed.pop(number, None)
        after = f" in place of {before.number}" if before else ""
        _LOG.info("%s version %d answers%s: %s", self.name, number, after, directory)
        return True


def find_models(path: Path) -> list[Model]:
    """The models of a directory.

    Args:
        path: what `dssm export` wrote, `OUT` with several models, `OUT/NAME` with its versions or
            `OUT/NAME/VERSION`; or a run.

    Raises:
        UserError: there is none.
    """
    path = Path(path).absolute()
    inside = [path] if _numbers(path) else sorted(path.iterdir()) if path.is_dir() else []
    if models := [Model(one.name, one) for one in inside if _numbers(one)]:
        return models
    if (place := find_model(path)) is None:
        what = "is no model" if path.exists() else "does not exist"
        raise UserError(
            f"{path} {what}; expected a directory that `dssm export` or `dssm train` wrote."
        )
    versioned = path.name.isdecimal()
    return [Model(place.name if versioned else path.name, path, int(path.name) if versioned else 1)]


def _numbers(directory: Path) -> list[int]:
    """The numbers of a model's versions, highest first; none where there is no such directory."""
    try:
        found = [one for one in directory.iterdir() if one.name.isdecimal() and one.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(one.name) for one in found), reverse=True)


def _stamp(directory: Path) -> Any:
    """Sizes and times of a directory's files; None while they change under our eyes."""
    try:
        files = sorted(one for one in directory.rglob("*") if one.is_file())
        return [(one, one.stat().st_size, one.stat().st_mtime_ns) for one in files]
    except OSError:
        return None
