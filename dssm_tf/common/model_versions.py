"""Model versions: numbered subdirectories of a model's directory, as in TensorFlow Serving."""

from __future__ import annotations

from pathlib import Path


def versions_in(model: Path) -> list[int]:
    """The numbers of the versions in a model's directory."""
    return [int(path.name) for path in model.glob("*") if path.name.isdecimal()]


def next_version(model: Path) -> Path:
    """The directory of the next version; the first is 1."""
    return model / str(max(versions_in(model), default=0) + 1)


def newest_version(directory: Path) -> Path:
    """The newest version in a directory, or the directory itself if it has no versions."""
    versions = versions_in(directory)
    return directory / str(max(versions)) if versions else directory
