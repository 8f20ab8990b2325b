"""Less memory for a process: one allocator, and freed memory for the operating system."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

import pyarrow as pa


def share_allocator() -> None:
    """Makes Arrow allocate memory from the C library.

    By default, Arrow has its own allocator, which keeps tens of megabytes per thread that read a
    Parquet file. `return_freed_memory` cannot return all of it.
    """
    pa.set_memory_pool(pa.system_memory_pool())


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
