"""Compiles functions with Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


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


def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """The type and the code of `prefetch`, as Numba expects them.

    Args:
        context: not used.
        array: the type of the array.
        index: the type of the position.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type = signature.args[0]
        entries = context.make_array(array_type)(context, builder, arguments[0])
        pointer = builder.bitcast(
            builder.gep(entries.data, [arguments[1]]), ir.IntType(8).as_pointer()
        )
        number = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], function_type)
        # To read (0), keep it in all caches (3), data (1): see LLVM's language reference.
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)
"""`prefetch(array, index)` asks the CPU to load an entry of a one-dimensional array into its cache.

Only for compiled functions. The index may be outside the array.
"""
