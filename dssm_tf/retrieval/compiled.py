"""Compiles functions with Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Any], Any]:
    """A decorator that compiles a function at its first call, and keeps the machine code in a file.

    Without a directory to write the file into, the function is compiled in each process.
    """

    def compile_function(function: Any) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # "no locator available"
            return numba.njit(nogil=True, **options)(function)

    return compile_function
