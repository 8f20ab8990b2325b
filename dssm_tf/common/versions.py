"""The versions that a result was made with."""

from __future__ import annotations

import hashlib
import json
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


def digest(*parts: object) -> str:
    """Twelve digits of what a result depends on, the versions included."""
    text = json.dumps([*parts, versions()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
