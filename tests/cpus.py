"""Runs the tests marked `numeric` as other CPUs and other numbers of threads would compute them.

    python -m tests.cpus [ARGUMENTS FOR PYTEST ...]

What a sum of floats comes to depends on the order of its terms, and that on the instructions of
the CPU, on the library that uses them, and on the threads that share the sum. What this CPU cannot
do is left out, and said.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent


class Cpu(NamedTuple):
    """How tests are computed.

    Args:
        name: what the output calls it.
        threads: of TensorFlow, within an operation and beside others, and of NumPy.
        settings: environment variables: TensorFlow's, oneDNN's and OpenBLAS's.
        needs: the flag of /proc/cpuinfo without which it cannot be computed here.
        left_out: tests it cannot compute, as pytest's `-k` has them.
    """

    name: str
    threads: int
    settings: dict[str, str]
    needs: str = ""
    left_out: str = ""


def one_dnn(most: str, blas: str) -> dict[str, str]:
    """oneDNN with no later instructions than `most`, and OpenBLAS as of such a CPU."""
    return {
        "TF_ENABLE_ONEDNN_OPTS": "1", "ONEDNN_MAX_CPU_ISA": most, "OPENBLAS_CORETYPE": blas
    }  # fmt: skip


# TensorFlow asks the CPU itself whether it has AVX-512, and on one that has gives oneDNN bfloat16
# to multiply, which crashes where oneDNN was told to leave AVX-512 alone.
NO_BFLOAT16 = "not bfloat16"
CPUS = [
    Cpu("oneDNN off, 8 threads", 8, {"TF_ENABLE_ONEDNN_OPTS": "0"}),
    Cpu("oneDNN, all of this CPU, 2 threads", 2, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
    Cpu("oneDNN, AVX-512, 1 thread", 1, one_dnn("AVX512_CORE", "SkylakeX"), "avx512bw"),
    Cpu("oneDNN, AVX2, 2 threads", 2, one_dnn("AVX2", "Haswell"), "avx2", NO_BFLOAT16),
    Cpu("oneDNN, SSE4.1, 8 threads", 8, one_dnn("SSE41", "Nehalem"), "sse4_1", NO_BFLOAT16),
]


def main(arguments: list[str]) -> int:
    """Runs the tests on each CPU; returns the number of those on which some failed."""
    files = [
        path for path in sorted(TESTS.rglob("test_*.py")) if "mark.numeric" in path.read_text()
    ]
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    cpuinfo, failed = Path("/proc/cpuinfo"), 0
    known = cpuinfo.read_text("ascii").split() if cpuinfo.exists() else ()
    for cpu in CPUS:
        if cpu.needs and cpu.needs not in known:
            print(f"{cpu.name}: left out, this CPU has no {cpu.needs}", flush=True)  # noqa: T201
            continue
        print(f"{cpu.name}:", flush=True)  # noqa: T201
        failed += subprocess.call(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-m", "numeric and not slow", "-k", cpu.left_out, *files, *arguments],
            env=os.environ | {name: str(cpu.threads) for name in names} | cpu.settings,
            cwd=TESTS.parent,
        ) != 0  # fmt: skip
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
