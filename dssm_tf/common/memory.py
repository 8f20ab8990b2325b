"""Less memory for a process: one allocator, and freed memory for the operating system."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import pyarrow as pa

_M_ARENA_MAX = -8  # a parameter of the GNU C library's function mallopt
_ARENAS = 2


def prefer_less_memory() -> None:
    """Makes the allocators of this process keep less freed memory; for processes of a command.

    Arrow then allocates memory from the C library: its own allocator keeps tens of megabytes per
    thread that reads a Parquet file, and `return_freed_memory` cannot return all of it. The C
    library divides its memory into at most two parts, instead of up to eight per core.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):  # another C library, which has no such function
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, _ARENAS)


def return_freed_memory() -> None:
    """Returns freed memory to the operating system, as far as possible.

    It first frees objects in reference cycles, such as TensorFlow datasets. The allocators of Arrow
    and of the GNU C library keep freed memory for later use. Returning it between the phases of
    training lowers the peak memory of the process. A call takes a few hundredths of a second.
    """
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another C library, which has no such function
        ctypes.CDLL("libc.so.6").malloc_trim(0)
