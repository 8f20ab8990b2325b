"""Versions of the software that produces a result."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("dssm-tf", "tensorflow", "keras", "numpy", "apache-beam")


def versions() -> dict[str, str]:
    """The versions of Python, this package and its main dependencies."""
    result: dict[str, str] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            result[package] = "not installed"
    return result


def digest(*parts: object) -> str:
    """A hash of values that a result depends on, and of `versions()`: 12 hexadecimal digits."""
    text = json.dumps([*parts, versions()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
