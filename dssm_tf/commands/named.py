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
    return {name: Path(path) for name, path in named_models(entries, option).items()}


def named_models(entries: Sequence[str], option: str) -> dict[str, str]:
    """Directories or names of models by name, as `named_paths`.

    Raises:
        UserError: an entry lacks a part, or two have one name.
    """
    pairs = (split_name(entry, option) for entry in entries)
    return only_names([(name or _stem(path), path) for name, path in pairs], option)


def named_vectors(entries: Sequence[str], option: str) -> dict[str, tuple[Path, Path]]:
    """Files of queries and of titles by name, from `[NAME=]QUERIES.npy,TITLES.npy`.

    Without a name, that of the titles' file is taken.

    Raises:
        UserError: an entry has not two files, or two have one name.
    """
    found = []
    for entry in entries:
        name, files = split_name(entry, option)
        queries, comma, titles = files.partition(",")
        if not comma or not titles or "," in titles:
            raise UserError(f"{option} {entry}: expected two files, [NAME=]QUERIES.npy,TITLES.npy.")
        found.append((name or _stem(titles), (Path(queries), Path(titles))))
    return only_names(found, option)


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


def _stem(path: str) -> str:
    name = Path(path).resolve().name
    return name.removesuffix(".gz").removesuffix(".trec").removesuffix(".npy")


def only_names(found: Sequence[tuple[str, T]], option: str) -> dict[str, T]:
    """What was found by its name.

    Raises:
        UserError: two have one name.
    """
    names = [name for name, _ in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{option}: two are called {twice!r}; rename one, NAME=PATH.")
    return dict(found)
