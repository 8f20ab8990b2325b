"""Freed memory is returned to the operating system."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from dssm_tf.common.memory import return_freed_memory


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


class Cycle:
    """Holds small blocks of memory and refers to itself."""

    def __init__(self) -> None:
        self.blocks = [bytes(4000) for _ in range(25_000)]  # too small to be mapped one by one
        self.itself = self


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_objects_in_reference_cycles_and_free_blocks_are_returned():
    return_freed_memory()
    before = resident_mb()
    gc.disable()
    try:
        cycle = Cycle()
        full = resident_mb()
        del cycle
        assert resident_mb() > before + 80  # the cycle still holds 100 MB
        return_freed_memory()
        assert full > before + 80
        assert resident_mb() < before + 30
    finally:
        gc.enable()


def test_arrow_returns_its_free_blocks_too(monkeypatch):
    class Pool:
        released = 0

        def release_unused(self) -> None:
            self.released += 1

    pool = Pool()
    monkeypatch.setattr(pa, "default_memory_pool", lambda: pool)
    return_freed_memory()
    assert pool.released == 1


ONEDNN = "TF_ENABLE_ONEDNN_OPTS"

SCRIPT = """
import os, numpy as np
from dssm_tf.common.memory import prefer_less_memory
prefer_less_memory(return_tensors=True)
from tests.common.test_memory import resident_mb
before = resident_mb()
for _ in range(3):  # by default, the C library keeps freed blocks from the second round on
    blocks = [np.ones(10 << 17) for _ in range(20)]
    keep = [bytes(100_000) for _ in range(20)]
    del blocks
print(resident_mb() - before, os.environ["TF_ENABLE_ONEDNN_OPTS"])
"""


@pytest.mark.parametrize("return_tensors", [True, False])
def test_tensorflow_runs_without_onednn_unless_the_user_sets_it(return_tensors):
    code = (
        "import os; from dssm_tf.common.memory import prefer_less_memory;"
        f"prefer_less_memory({return_tensors}); print(os.environ['TF_ENABLE_ONEDNN_OPTS'])"
    )
    for setting, expected in ((None, "0"), ("1", "1")):
        environment = {**os.environ} | ({} if setting is None else {ONEDNN: setting})
        if setting is None:
            environment.pop(ONEDNN, None)
        output = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
        assert output.strip() == expected


@pytest.mark.parametrize(("setting", "expected"), [(None, "1"), ("3", "3")])
def test_one_thread_unless_the_user_sets_their_number(setting, expected):
    code = (
        "import os; from pathlib import Path; from dssm_tf.common import memory;"
        "memory._NVIDIA_DRIVER = Path('missing');"
        "memory.prefer_less_memory(False, one_thread=True);"
        "print(os.environ['TF_NUM_INTRAOP_THREADS'], os.environ['TF_NUM_INTEROP_THREADS'])"
    )
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {} if setting is None else dict.fromkeys(names, setting)
    output = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
    assert output.split() == [expected, expected]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_large_blocks_return_to_the_operating_system_when_they_are_freed():
    command = [sys.executable, "-c", SCRIPT]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    remaining, one_dnn = output.split()
    assert float(remaining) < 20  # of 200 MB
    assert one_dnn == "0"
