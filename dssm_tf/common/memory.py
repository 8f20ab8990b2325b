"""Less memory for a process: one allocator, and freed memory for the operating system."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

# Parameters of the GNU C library's function mallopt, and their values.
_M_ARENA_MAX, _ARENAS = -8, 2
_M_MMAP_THRESHOLD, _LARGE_BYTES = -3, 8 << 20

_NVIDIA_DRIVER = Path("/dev/nvidiactl")


def prefer_less_memory(return_tensors: bool, one_thread: bool = False) -> None:
    """Makes the allocators of this process keep less freed memory.

    Call it only in a process that runs one command, and before TensorFlow is imported.

    Arrow allocates memory from the C library: its own allocator keeps tens of megabytes per
    thread that reads a Parquet file, and `return_freed_memory` cannot return all of it. The C
    library divides its memory into at most two parts, instead of up to eight per core. TensorFlow's
    oneDNN, which keeps freed tensors for later steps, is turned off, unless the environment
    variable `TF_ENABLE_ONEDNN_OPTS` is set.

    Args:
        return_tensors: whether each freed tensor of at least 8 MiB returns to the operating system
            at once. It takes processor time.
        one_thread: whether TensorFlow gets one thread on a machine without NVIDIA GPU, unless the
            environment variables `TF_NUM_INTRAOP_THREADS` and `TF_NUM_INTEROP_THREADS` are set. On
            two logical CPUs of one core, training `maxsim` with two threads takes a seventh less
            time, 30 % more processor time and 6 % more memory.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    if one_thread and not _NVIDIA_DRIVER.exists():
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
        os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
    with suppress(OSError, AttributeError):  # another C library, which has no such function
        c_library = ctypes.CDLL("libc.so.6")
        c_library.mallopt(_M_ARENA_MAX, _ARENAS)
        if return_tensors:
            c_library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def return_freed_memory() -> None:
    """Returns freed memory to the operating system, as far as possible.

    It first frees objects in reference cycles, such as TensorFlow datasets. The allocators of Arrow
    and of the GNU C library keep freed memory for later use. Returning it between the phases of
    training lowers the peak memory of the process. A call takes up to half a second.
    """
    gc.collect()
    trim_allocators()


def trim_allocators() -> None:
    """Returns the memory that allocators keep, like `return_freed_memory`, but frees no objects.

    A call takes a few milliseconds.
    """
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another C library, which has no such function
        ctypes.CDLL("libc.so.6").malloc_trim(0)
