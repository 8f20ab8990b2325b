"""What flags take as `[NAME=]PATH`: paths by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dssm_tf.common.errors import UserError


def named_models(entries: Sequence[str], option: str) -> dict[str, str]:
    """Paths, or names of models, by the name before `=`, or else by their own last part.

    Raises:
        UserError: an entry lacks a part, or two have one name.
    """
    pairs = [split_name(entry, option) for entry in entries]
    names = [name or _stem(path) for name, path in pairs]
    check_unique_names(names, option)
    return dict(zip(names, (path for _, path in pairs), strict=True))


def named_paths(entries: Sequence[str], option: str) -> dict[str, Path]:
    """As `named_models`, of paths."""
    return {name: Path(path) for name, path in named_models(entries, option).items()}


def split_name(entry: str, option: str) -> tuple[str, str]:
    """Name and path; no name where none is given, or where the whole is a file's name.

    Raises:
        UserError: one of the two is empty.
    """
    name, equals, path = entry.partition("=")
    if not equals or Path(entry).exists():
        return "", entry
    if not name or not path:
        raise UserError(f"{option} {entry!r}: expected PATH or NAME=PATH.")
    return name, path


def check_unique_names(names: Sequence[str], option: str) -> None:
    """Raises UserError if two have one name."""
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{option}: two are called {twice!r}; rename one with NAME=PATH.")


def _stem(path: str) -> str:
    """The name of a file, of the last one of several."""
    name = Path(path.rpartition(",")[2]).resolve().name
    return name.removesuffix(".gz").removesuffix(".trec").removesuffix(".npy")
