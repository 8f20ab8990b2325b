"""Model versions: numbered subdirectories of a model's directory, as in TensorFlow Serving."""

from __future__ import annotations

from pathlib import Path


def versions_in(model: Path) -> dict[int, Path]:
    """The versions in a model's directory: their paths by number.

    A name may have leading zeros, as in TensorFlow Serving: `0002` is version 2. If `2` exists
    too, it is taken.
    """
    paths = sorted(path for path in model.glob("*") if path.name.isdecimal())  # `002` before `2`
    return {int(path.name): path for path in paths}


def next_version(model: Path) -> Path:
    """The directory of the next version; the first is 1."""
    return model / str(max(versions_in(model), default=0) + 1)


def newest_version(directory: Path) -> Path:
    """The newest version in a directory, or the directory itself if it has no versions."""
    versions = versions_in(directory)
    return versions[max(versions)] if versions else directory
