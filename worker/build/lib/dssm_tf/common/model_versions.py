"""Versions of a model: the numbered directories of its own, as TensorFlow Serving reads them."""

from __future__ import annotations

from pathlib import Path


def versions_in(model: Path) -> list[int]:
    """The numbers of the versions in a model's directory."""
    return [int(one.name) for one in model.glob("*") if one.name.isdecimal()]


def next_version(model: Path) -> Path:
    """The directory of a version to write: one above the highest there, from 1 on."""
    return model / str(max(versions_in(model), default=0) + 1)


def newest_version(directory: Path) -> Path:
    """The newest version where a model's directory is given, else the directory itself."""
    versions = versions_in(directory)
    return directory / str(max(versions)) if versions else directory
