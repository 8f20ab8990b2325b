"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Set before TensorFlow is imported, in this process and in those that tests start.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "PYTEST_XDIST_WORKER" in os.environ:  # the workers share the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

# Tracing a training step creates a million long-lived objects. With the default thresholds, garbage
# collection takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)

# There are no time limits per example, because examples may be slow on busy machines.
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

CHECKOUT = Path(__file__).resolve().parent.parent
LONGEST_FILES = {"test_readme.py", "test_killed.py", "test_tune.py"}


def pytest_collection_modifyitems(items):
    """Runs the longest files first, so that no worker runs one of them at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST_FILES)


def pytest_collection_finish():
    """Exempts the imported libraries from garbage collection, which each training requests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The top directory of the source tree."""
    return CHECKOUT


@pytest.fixture
def write(tmp_path) -> Callable[[str, str | bytes], Path]:
    """Writes text or bytes to a file, compressed if its name ends in .gz."""

    def write(name, content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return tmp_path / name

    return write
