"""What flags take as `[NAME=]PATH`: paths by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from dssm_tf.common.errors import UserError

T = TypeVar("T")


def named_paths(entries: Sequence[str], option: str) -> dict[str, Path]:
    """Paths by name, from `NAME=PATH`, or `PATH` under its own last part.

    Raises:
        UserError: an entry lacks a part, or two have one name.
    """
    pairs = (_split(entry, option) for entry in entries)
    return _by_name([(name or _stem(path), Path(path)) for name, path in pairs], option)


def named_vectors(entries: Sequence[Sequence[str]], option: str) -> dict[str, tuple[Path, Path]]:
    """Files of queries and of titles by name, from `[NAME=]QUERIES.npy TITLES.npy`.

    A comma may stand between the two files instead of a space; without a name, that of the
    titles' file is taken.

    Raises:
        UserError: an entry has not two files, or two have one name.
    """
    found = []
    for entry in entries:
        name, first = _split(entry[0], option)
        paths = [path for part in (first, *entry[1:]) for path in part.split(",") if path]
        if len(paths) != 2:
            raise UserError(
                f"{option} {' '.join(entry)}: expected two files, [NAME=]QUERIES.npy TITLES.npy."
            )
        found.append((name or _stem(paths[1]), (Path(paths[0]), Path(paths[1]))))
    return _by_name(found, option)


def _split(entry: str, option: str) -> tuple[str, str]:
    """Name and path; no name where none is given, or where the whole is a file's name."""
    name, equals, path = entry.partition("=")
    if not equals or Path(entry).exists():
        return "", entry
    if not name or not path:
        raise UserError(f"{option} {entry!r}: expected PATH or NAME=PATH.")
    return name, path


def _stem(path: str) -> str:
    name = Path(path).resolve().name
    return name.removesuffix(".gz").removesuffix(".trec").removesuffix(".npy")


def _by_name(found: Sequence[tuple[str, T]], option: str) -> dict[str, T]:
    names = [name for name, _ in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{option}: two are called {twice!r}; name them, NAME=PATH.")
    return dict(found)
