"""Parsing of flags of the form `[NAME=]PATH`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.paths import AnyPath, text_list


def named_models(entries: AnyPath | Sequence[AnyPath], option: str) -> dict[str, str]:
    """Parses paths, or names of models, and returns them by name.

    The name is the part before `=`, or else the last part of the path.

    Raises:
        UserError: a name or a path is empty, or two entries have the same name.
    """
    pairs = [split_name(entry, option) for entry in text_list(entries)]
    names = [name or _stem(path) for name, path in pairs]
    check_unique_names(names, option)
    return dict(zip(names, (path for _, path in pairs), strict=True))


def named_paths(entries: AnyPath | Sequence[AnyPath], option: str) -> dict[str, Path]:
    """Parses paths and returns them by name; see `named_models`."""
    return {name: Path(path) for name, path in named_models(entries, option).items()}


def split_name(entry: str, option: str) -> tuple[str, str]:
    """Splits `[NAME=]PATH` into name and path.

    The name is empty if there is none, or if a file named `NAME=PATH` exists.

    Raises:
        UserError: the name before `=`, or the path, is empty.
    """
    name, equals, path = entry.partition("=")
    if not equals or Path(entry).exists():
        return "", entry
    if not name or not path:
        raise UserError(f"{option} {entry!r}: expected PATH or NAME=PATH.")
    return name, path


def check_unique_names(names: Sequence[str], option: str) -> None:
    """Raises UserError if two names are equal."""
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise UserError(
            f"{option}: two entries have the name {duplicate!r}; rename one with NAME=PATH."
        )


def _stem(path: str) -> str:
    """The last part of a path, without suffixes; of comma-separated paths, of the last one."""
    name = Path(path.rpartition(",")[2]).resolve().name
    return name.removesuffix(".gz").removesuffix(".trec").removesuffix(".npy")
