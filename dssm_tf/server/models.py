"""Which version of a model answers; a newer one takes over once it has proved itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from dssm_tf.common.boundary import one_line
from dssm_tf.server.servable import Servable
from dssm_tf.server.sources import Source, open_servable

_LOG = logging.getLogger("dssm_tf.server")

Loaded = Callable[[Path, bool, float], object]
"""Told of each attempt to load: the directory, whether it went well, and its seconds."""


class Version(NamedTuple):
    """A version that answers."""

    model: str
    number: int
    servable: Servable


class VersionState(NamedTuple):
    """What became of a version: `LOADING`, `AVAILABLE` or `END`, and why it failed if it did."""

    name: str
    error: str = ""


class Model:
    """A model by its name, with one version that answers.

    That is the newest of its directory that can be loaded. Requests hold the version they began
    with, so an older one goes when its last request is answered.

    Args:
        name: what clients call it.
        source: where its versions lie.
        load: opens one; raises what it likes.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        load: Callable[[Path], Servable] = open_servable,
    ) -> None:
        self.name = name
        self.source = source
        self.current: Version | None = None
        self._load = load
        self._states: dict[int, VersionState] = {}
        self._failed: dict[int, Any] = {}

    def states(self) -> dict[int, VersionState]:
        """The versions that were there since the start, newest first."""
        return dict(sorted(self._states.copy().items(), reverse=True))

    def look(self, loaded: Loaded = lambda path, well, seconds: None) -> None:
        """Looks for the newest version that can be loaded, and lets it answer from now on.

        One that failed is tried again when its files have changed: it may still have been copied.

        Args:
            loaded: told of each attempt.
        """
        for number, directory in self.source.versions().items():
            if self.current is not None and number == self.current.number:
                return
            stamp = _stamp(directory)
            if self._failed.get(number) == stamp:
                continue
            started = monotonic()
            well = self._try(number, directory)
            loaded(directory, well, monotonic() - started)
            if well:
                return
            self._failed[number] = stamp

    def _try(self, number: int, directory: Path) -> bool:
        self._states[number] = VersionState("LOADING")
        try:
            servable = self._load(directory)
        except Exception as error:  # damaged files raise almost any kind
            reason = one_line(error) or f"{type(error).__name__}: {error}"
            self._states[number] = VersionState("END", reason)
            kept = f"; version {self.current.number} goes on" if self.current else ""
            _LOG.error("%s version %d is not served%s: %s", self.name, number, kept, reason)
            return False
        before, self.current = self.current, Version(self.name, number, servable)
        self._states[number] = VersionState("AVAILABLE")
        if before is not None:
            self._states[before.number] = VersionState("END")
        self._failed.pop(number, None)
        after = f" in place of {before.number}" if before else ""
        _LOG.info("%s version %d answers%s: %s", self.name, number, after, directory)
        return True


def _stamp(directory: Path) -> Any:
    """Sizes and times of a directory's files; None while they change under our eyes."""
    try:
        files = sorted(one for one in directory.rglob("*") if one.is_file())
        return [(one, one.stat().st_size, one.stat().st_mtime_ns) for one in files]
    except OSError:
        return None
