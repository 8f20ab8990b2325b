"""Watches the directories of models and of an index, and loads new versions.

As in TensorFlow Serving, directories are polled. A version is loaded when its files have not
changed between two polls, so a copy is read after it is complete. All files are read into memory:
no later change of a file affects the server. The loaders verify checksums, and the files must not
change while they are read. A version that cannot be loaded is refused with a message, and tried
again when its files change. The old version stays, also if its directory is removed and no other
version is left.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from dssm_tf.common.errors import UserError
from dssm_tf.common.model_versions import newest_version
from dssm_tf.retrieval.opening import AnyIndex, open_index
from dssm_tf.server.models import (
    WARM_UP_QUERY,
    ServedModel,
    Snapshot,
    load_version,
    newest_versions,
)

_LOG = logging.getLogger("dssm_tf.server")
_T = TypeVar("_T")
_FileStates = tuple[tuple[str, int, int, int], ...]
"""The name, inode, size and modification time of each file."""


class ModelSource(NamedTuple):
    """A directory of models; `name` replaces the name of its only model if it is not empty."""

    path: Path
    name: str = ""


@dataclass
class _Watched(Generic[_T]):
    """A version and the states of its files.

    Attributes:
        last: the states of the files at the last poll.
        loaded: the states of the files from which `content` was loaded.
        failed: the states of the files of the last load that failed; None after a success.
        message: the error of that load.
        content: the loaded model or index; None before the first load.
        loads: the number of loads.
    """

    last: _FileStates | None = None
    loaded: _FileStates | None = None
    failed: _FileStates | None = None
    message: str = ""
    content: _T | None = None
    loads: int = 0

    def load(self, name: str, number: int, files: _FileStates, read: Callable[[], _T]) -> None:
        """Loads a version; an error is logged and stored in `message`.

        Args:
            name: the name of the model, for the log.
            number: the number of the version, for the log.
            files: the states of its files.
            read: loads the content.
        """
        try:
            content = read()
        except Exception as error:  # a damaged file must not end the server
            self.failed = files
            self.message = str(error) if isinstance(error, UserError) else type(error).__name__
            _LOG.error("version %d of %s is refused: %s", number, name, self.message)
            return
        self.content, self.loaded, self.failed, self.message = content, files, None, ""
        self.loads += 1
        _LOG.info("version %d of %s is served", number, name)


@dataclass
class Repository:
    """The models and the index of a server, and the directories that they come from.

    Args:
        sources: directories of models.
        index: the index, or a directory of its numbered versions; None for none.
        rules: a file of rules by hand, which replace those of the index; it is watched too.
        labels: numbers of versions by label; these versions are served beside the newest ones.

    Attributes:
        snapshot: the models and the index that are served now.
    """

    sources: Sequence[ModelSource] = ()
    index: Path | None = None
    rules: Path | None = None
    labels: Mapping[str, int] = field(default_factory=dict)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot({}))

    def __post_init__(self) -> None:
        self._models: dict[tuple[str, Path], _Watched[ServedModel]] = {}
        self._indexes: dict[Path, _Watched[AnyIndex]] = {}
        self._failures: dict[str, dict[int, str]] = {}
        self._gone: dict[str, int] = {}  # the version that is still served, by name
        self._lock = Lock()

    def open(self) -> Snapshot:
        """Loads everything for the first time.

        Raises:
            UserError: a model or the index cannot be loaded, or two models have the same name.
        """
        with self._lock:
            self.snapshot = self._read(is_starting=True, at_once=True)
        return self.snapshot

    def refresh(self, at_once: bool = False) -> bool:
        """Loads new versions; returns whether `snapshot` changed. Call it in a thread.

        Args:
            at_once: whether to load files that have just changed, and to try failed versions again.
        """
        with self._lock:
            try:
                new = self._read(is_starting=False, at_once=at_once)
            except Exception as error:  # a directory that cannot be listed, for example
                _LOG.error("the models are served as before: %s", error)
                return False
            changed = _identity(new) != _identity(self.snapshot)
            if changed:
                self.snapshot = new
        return changed

    def _read(self, is_starting: bool, at_once: bool) -> Snapshot:
        """Loads changed versions and returns the snapshot to serve; see `_update`."""
        self._failures = {}
        gone_before, self._gone = self._gone, {}
        versions: dict[str, dict[int, ServedModel]] = {}
        index = None if self.index is None else self._read_index(self.index, is_starting, at_once)
        if index is not None:
            versions[index[1].name] = {index[1].version: index[1]}
        used: set[tuple[str, Path]] = set()
        for source in self.sources:
            models, watched = self._read_models(source, is_starting, at_once)
            used |= watched
            for name in dict.fromkeys(model.name for model in models):
                if name in versions:
                    raise UserError(
                        f"models: two entries have the name {name!r}; rename one with NAME=PATH."
                    )
                versions[name] = {model.version: model for model in models if model.name == name}
        self._models = {key: self._models[key] for key in used}
        # The model of an index may have another name than that of the index before it.
        names_of_index = {self.snapshot.index[1].name} if self.snapshot.index else set()
        for name in self.snapshot.versions.keys() - versions.keys() - names_of_index:
            versions[name] = dict(self.snapshot.versions[name])
            self._gone[name] = max(versions[name])
        for name in self._gone.keys() - gone_before.keys():
            _LOG.warning(
                "the files of %s are gone; version %d is served as before; "
                "restart the server to stop this",
                name, self._gone[name],
            )  # fmt: skip
        return Snapshot(versions, self.labels, self._failures, index)

    def _read_index(
        self, path: Path, is_starting: bool, at_once: bool
    ) -> tuple[AnyIndex, ServedModel] | None:
        """The index to serve, and its model; the old ones if the new index is refused."""
        directory = newest_version(path.absolute())
        watched = self._indexes.setdefault(directory, _Watched())
        number = int(directory.name) if directory.name.isdecimal() else 0

        def read() -> AnyIndex:
            index = open_index(directory, mapped=False, rules=self.rules)
            index.search(WARM_UP_QUERY)  # compiles functions
            return index

        version = number or watched.loads + 1
        paths = [directory] if self.rules is None else [directory, self.rules.absolute()]
        self._update(watched, paths, path.name, version, read, is_starting, at_once)
        index, old = watched.content, self.snapshot.index
        if old is not None and _files_of([directory]) == () and number <= old[1].version:
            self._gone[path.name] = old[1].version
        if index is None or (old is not None and old[0] is index):
            return old
        self._indexes = {directory: watched}
        return index, ServedModel(index.model.name, number or watched.loads, index.model)

    def _read_models(
        self, source: ModelSource, is_starting: bool, at_once: bool
    ) -> tuple[list[ServedModel], set[tuple[str, Path]]]:
        """The models of a source to serve, and the names and directories of their versions."""
        versions = newest_versions(source.path, sorted({*self.labels.values()}))
        names = {name for name, *_ in versions}
        if source.name and len(names) > 1:
            raise UserError(
                f"{source.name}={source.path}: {source.path} contains the models "
                f"{', '.join(sorted(names))}; leave {source.name}= out."
            )
        models: list[ServedModel] = []
        used: set[tuple[str, Path]] = set()
        for directory_name, number, directory in versions:
            name = source.name or directory_name
            is_newest = name not in {used_name for used_name, _ in used}
            used.add((name, directory))
            watched = self._models.setdefault((name, directory), _Watched())
            read = partial(load_version, name, number, directory)
            self._update(watched, [directory], name, number, read, is_starting, at_once)
            old = self.snapshot.versions.get(name, {})
            model = watched.content or old.get(number)
            if model is None and old and is_newest:  # it is incomplete or refused
                model = old[max(old)]
            if model is not None:
                models.append(model)
            if old and is_newest and watched.last == () and number <= max(old):
                self._gone[name] = max(old)
        return models, used

    def _update(
        self,
        watched: _Watched[_T],
        paths: Sequence[Path],
        name: str,
        number: int,
        read: Callable[[], _T],
        is_starting: bool,
        at_once: bool,
    ) -> None:
        """Loads a version if its files have changed.

        Args:
            watched: the version.
            paths: its files or directories.
            name: the name of the model, for messages.
            number: the number of the version, for messages.
            read: loads the content.
            is_starting: whether the server starts; an error is then raised.
            at_once: whether to load files that have just changed, and to try failed ones again.
        """

        def read_unchanged() -> _T:
            content = read()
            if _files_of(paths) != files:
                raise UserError(f"{' or '.join(map(str, paths))} changed while it was read.")
            return content

        files = _files_of(paths)
        is_stable = files == watched.last
        watched.last = files
        if is_starting:
            watched.content, watched.loaded = read_unchanged(), files
            watched.loads += 1
        elif (
            files
            and files != watched.loaded
            and (at_once or (is_stable and files != watched.failed))
        ):
            watched.load(name, number, files, read_unchanged)
        if watched.message and watched.failed == files:
            self._failures.setdefault(name, {})[number] = watched.message


def _identity(snapshot: Snapshot) -> object:
    """Equal for snapshots that serve the same objects."""
    return snapshot.rankers, snapshot.failures, snapshot.index and id(snapshot.index[0])


def _files_of(paths: Sequence[Path]) -> _FileStates | None:
    """The states of files, and of all files below directories; None after an error."""
    files = []
    try:
        for top in paths:
            below = [top] if top.is_file() else []
            for folder, _, names in os.walk(top):
                below += [Path(folder) / name for name in names]
            for path in below:
                state = path.stat()
                files.append((str(path), state.st_ino, state.st_size, state.st_mtime_ns))
    except OSError:
        return None
    return tuple(sorted(files))
