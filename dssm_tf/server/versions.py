"""Where models lie, and which version answers; a newer one takes over once it has proved itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.boundary import one_line
from dssm_tf.common.errors import UserError
from dssm_tf.export.load import find_model, load
from dssm_tf.text.vocabulary import Vocabulary

_LOG = logging.getLogger("dssm_tf.server")
# What every model must answer before it counts; the second time has other shapes than the first.
_PROBES = (["wizard of oz"], ["", "a", "x" * 1000, "wizard of oz"])


class Ranker(Protocol):
    """What the server asks of a model. Threads share it."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The letter trigrams it knows."""
        ...

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> NDArray[np.float32]:
        """Vectors of queries; inner products of those with the prior are scores."""
        ...

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> NDArray[np.float32]:
        """Vectors of titles."""
        ...


def open_ranker(directory: Path) -> Ranker:
    """Loads a version of a model and lets it answer, so that no user waits for its first time.

    Raises:
        UserError: it is no export, a file of it is damaged, or its vectors are not finite.
    """
    found = find_model(directory)
    if found is None or found.kind == "run":
        raise UserError(f"{directory} holds no model; expected what `dssm export` wrote.")
    ranker: Any = load(directory)
    for texts in _PROBES:
        for encode in (ranker.encode_queries, ranker.encode_titles):
            if not all(np.isfinite(encode(texts, prior)).all() for prior in (False, True)):
                raise UserError(
                    f"{directory}: {encode.__name__} answers what is not finite. Export it again."
                )
    return ranker


class Version(NamedTuple):
    """A version that answers."""

    number: int
    ranker: Ranker


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
        load: Callable[[Path], Ranker] = open_ranker,
    ) -> None:
        self.name, self.directory = name, directory
        self.current: Version | None = None
        self._version, self._load = version, load
        self._states: dict[int, State] = {}
        self._failed: dict[int, Any] = {}

    def states(self) -> dict[int, State]:
        """The versions that were there since the start, newest first."""
        return dict(sorted(self._states.copy().items(), reverse=True))

    def look(self, loaded: Callable[[str, int, bool], object] = lambda *_: None) -> None:
        """Looks for the newest version that can be loaded, and lets it answer from now on.

        One that failed is tried again when its files have changed: it may still have been copied.

        Args:
            loaded: called after each attempt with the model's name, the number, and whether it
                went well.

        Raises:
            OSError: the directory cannot be read now; what answers goes on.
        """
        for number, directory in self._versions().items():
            if self.current is not None and number == self.current.number:
                return
            stamp = _stamp(directory)
            if number in self._failed and self._failed[number] == stamp:
                continue
            well = self._try(number, directory)
            loaded(self.name, number, well)
            if well:
                return
            self._failed[number] = stamp

    def _versions(self) -> dict[int, Path]:
        """The versions that lie there now, newest first."""
        if self._version is not None:
            return {self._version: self.directory}
        found = {int(one.name): one for one in _numbered(self.directory)}
        return dict(sorted(found.items(), reverse=True))

    def _try(self, number: int, directory: Path) -> bool:
        self._states[number] = State("LOADING")
        try:
            ranker = self._load(directory)
        except Exception as error:  # damaged files raise almost any kind
            reason = one_line(error) or f"{type(error).__name__}: {error}"
            self._states[number] = State("END", reason)
            kept = f"; version {self.current.number} goes on" if self.current else ""
            _LOG.error("%s version %d is not served%s: %s", self.name, number, kept, reason)
            return False
        before, self.current = self.current, Version(number, ranker)
        self._states[number] = State("AVAILABLE")
        if before is not None:
            self._states[before.number] = State("END")
        self._failed.pop(number, None)
        after = f" in place of {before.number}" if before else ""
        _LOG.info("%s version %d answers%s: %s", self.name, number, after, directory)
        return True


def find_models(path: Path) -> list[Model]:
    """The models of a directory that `dssm export` wrote.

    Args:
        path: `OUT` with several models, `OUT/NAME` with its versions, or `OUT/NAME/VERSION`.

    Raises:
        UserError: there is none.
    """
    path = Path(path).absolute()
    if _numbered(path):
        return [Model(path.name, path)]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    if models := [Model(one.name, one) for one in inside if one.is_dir() and _numbered(one)]:
        return models
    found = find_model(path)
    if found is not None and found.kind == "run":
        raise UserError(
            f"{path} is a run; export it first: dssm export --model {path} --out EXPORT"
        )
    if found is not None:
        number = int(path.name) if path.name.isdecimal() else 1
        return [Model(found.name if path.name.isdecimal() else path.name, path, number)]
    what = "is no model" if path.exists() else "does not exist"
    raise UserError(f"{path} {what}; expected a directory that `dssm export` wrote.")


def _numbered(directory: Path) -> list[Path]:
    """The directories whose names are numbers; none where there is no such directory."""
    try:
        return [one for one in directory.iterdir() if one.name.isdecimal() and one.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _stamp(directory: Path) -> Any:
    """Sizes and times of a directory's files; None while they change under our eyes."""
    try:
        files = sorted(one for one in directory.rglob("*") if one.is_file())
        return [(one, one.stat().st_size, one.stat().st_mtime_ns) for one in files]
    except OSError:
        return None
