"""Paths in arguments of public functions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

AnyPath = Path | str
"""A path; the command line passes a `Path`."""

NamedPath = str | Path
"""A path, `NAME=PATH`, or the name of a model; the command line passes text."""


def optional_path(path: AnyPath | None) -> Path | None:
    """The path as a `Path`; None stays None."""
    return None if path is None else Path(path)


def path_list(paths: AnyPath | Iterable[AnyPath]) -> tuple[Path, ...]:
    """One path or several as a tuple."""
    return (Path(paths),) if isinstance(paths, (str, Path)) else tuple(map(Path, paths))


def text_list(texts: AnyPath | Iterable[AnyPath]) -> tuple[str, ...]:
    """One path or several as a tuple of texts, for globs and `NAME=PATH`."""
    return (str(texts),) if isinstance(texts, (str, Path)) else tuple(map(str, texts))
