"""Runs the tests marked `numeric` and not `slow` as several CPUs and numbers of threads do.

    python -m tests.cpus [ARGUMENTS FOR PYTEST ...]

A sum of floats depends on the order of its terms, which depends on the instructions of the CPU, on
the library that uses them, and on the number of threads. A configuration that
needs instructions that this CPU lacks is skipped with a message.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent


class Configuration(NamedTuple):
    """Instructions, settings of libraries, and a number of threads to run the tests with.

    Args:
        name: name in the output.
        threads: number of threads of TensorFlow, within and between operations, and of NumPy.
        settings: environment variables of TensorFlow, oneDNN and OpenBLAS.
        needs: a required flag of /proc/cpuinfo.
        deselected: an expression for pytest's `-k` that excludes tests this CPU cannot run.
    """

    name: str
    threads: int
    settings: dict[str, str]
    needs: str = ""
    deselected: str = ""


def one_dnn(max_isa: str, blas: str) -> dict[str, str]:
    """Limits oneDNN to the instruction set `max_isa`, and OpenBLAS to those of a CPU."""
    return {
        "TF_ENABLE_ONEDNN_OPTS": "1", "ONEDNN_MAX_CPU_ISA": max_isa, "OPENBLAS_CORETYPE": blas
    }  # fmt: skip


# TensorFlow checks the CPU for AVX-512 and then multiplies bfloat16 with oneDNN, which crashes if
# oneDNN is limited to older instructions.
NO_BFLOAT16 = "not bfloat16"
CPUS = [
    Configuration("oneDNN off, 8 threads", 8, {"TF_ENABLE_ONEDNN_OPTS": "0"}),
    Configuration("oneDNN, all of this CPU, 2 threads", 2, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
    Configuration("oneDNN, AVX-512, 1 thread", 1, one_dnn("AVX512_CORE", "SkylakeX"), "avx512bw"),
    Configuration("oneDNN, AVX2, 2 threads", 2, one_dnn("AVX2", "Haswell"), "avx2", NO_BFLOAT16),
    Configuration(
        "oneDNN, SSE4.1, 8 threads", 8, one_dnn("SSE41", "Nehalem"), "sse4_1", NO_BFLOAT16
    ),
]


def main(arguments: list[str]) -> int:
    """Runs the tests on each CPU; returns the number of those on which some failed."""
    files = [
        path for path in sorted(TESTS.rglob("test_*.py")) if "mark.numeric" in path.read_text()
    ]
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    cpuinfo, failed = Path("/proc/cpuinfo"), 0
    cpu_flags = cpuinfo.read_text("ascii").split() if cpuinfo.exists() else ()
    for cpu in CPUS:
        if cpu.needs and cpu.needs not in cpu_flags:
            print(f"{cpu.name}: skipped, this CPU has no {cpu.needs}", flush=True)  # noqa: T201
            continue
        print(f"{cpu.name}:", flush=True)  # noqa: T201
        failed += subprocess.call(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-m", "numeric and not slow", "-k", cpu.deselected, *files, *arguments],
            env=os.environ | {name: str(cpu.threads) for name in names} | cpu.settings,
            cwd=TESTS.parent,
        ) != 0  # fmt: skip
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
