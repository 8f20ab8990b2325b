"""The versions that a result was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("dssm-tf", "tensorflow", "keras", "numpy", "apache-beam")


def versions() -> dict[str, str]:
    """The version of Python, of this package and of what it computes with."""
    found: dict[str, str] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
