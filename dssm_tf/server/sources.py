"""Where models lie: versions in directories, and how one of them is opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.compact_files import COMPACT
from dssm_tf.server.compact_model import CompactModel
from dssm_tf.server.saved_model import SAVED_MODEL, SavedModel
from dssm_tf.server.servable import Servable

_RUN = "config.yaml"
# What every model must answer before it counts; the second time has other shapes than the first.
_TRIED = ([b"wizard of oz"], [b"", b"a", b"x" * 1000, b"wizard of oz"])


def open_servable(directory: Path) -> Servable:
    """Loads a version of a model and lets it answer, so that no user waits for its first time.

    Raises:
        UserError: it is no model, a file of it is damaged, or what it answers are no numbers.
    """
    if not _is_version(directory):
        raise UserError(
            f"{directory} holds no {SAVED_MODEL} and no {COMPACT}; expected what `dssm export` "
            "wrote."
        )
    servable = _open(directory)
    for name, signature in servable.definition.signature_def.items():
        for texts in _TRIED if signature.inputs else ():
            found = servable.run(name, dict.fromkeys(signature.inputs, texts))
            for output, values in found.items():
                if len(values) != len(texts) or not np.isfinite(values).all():
                    raise UserError(
                        f"{directory}: `{name}` answers {len(texts)} texts with {output} "
                        f"{values.shape} that are not all numbers. Export the model again."
                    )
    return servable


def _open(directory: Path) -> Servable:
    return SavedModel(directory) if (directory / SAVED_MODEL).is_file() else CompactModel(directory)


class Source(NamedTuple):
    """Where a model's versions lie.

    Args:
        directory: which holds them by number; or the only one.
        version: the number of the only one; None looks for them.
    """

    directory: Path
    version: int | None = None

    def versions(self) -> dict[int, Path]:
        """The versions that lie there now, newest first."""
        if self.version is not None:
            return {self.version: self.directory}
        found = {int(one.name): one for one in _numbered(self.directory)}
        return dict(sorted(found.items(), reverse=True))


def find_models(path: Path) -> dict[str, Source]:
    """The models of a directory that `dssm export` wrote, by name.

    Args:
        path: `OUT` with several models, `OUT/NAME` with its versions, or `OUT/NAME/VERSION`.

    Raises:
        UserError: there is none.
    """
    path = Path(path).absolute()
    if _is_version(path):
        number = path.name.isdecimal()
        name = path.parent.name if number else path.name
        return {name: Source(path, int(path.name) if number else 1)}
    if _numbered(path):
        return {path.name: Source(path)}
    inside = sorted(path.iterdir()) if path.is_dir() else []
    found = {one.name: Source(one) for one in inside if _numbered(one)}
    if not found:
        what = "is no model" if path.exists() else "does not exist"
        raise UserError(
            f"{path} {what}; expected a directory that `dssm export` or `dssm train` wrote."
        )
    return found


def is_run(path: Path) -> bool:
    """Whether a directory is what `dssm train` writes, finished or not."""
    return (path / _RUN).is_file() and not _is_version(path)


def _is_version(path: Path) -> bool:
    return (path / SAVED_MODEL).is_file() or (path / COMPACT).is_file()


def _numbered(directory: Path) -> Sequence[Path]:
    """The directories whose names are numbers."""
    try:
        return [one for one in directory.iterdir() if one.name.isdecimal() and one.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
