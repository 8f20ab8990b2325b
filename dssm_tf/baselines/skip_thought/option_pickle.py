"""Reads a pickled dictionary of plain values without executing the pickle.

A pickle is a program that may call any function of the machine that loads it. The option files of
the published skip-thought weights are pickles of a dictionary of numbers and strings. Here their
instructions are only listed, by `pickletools`, and those that put plain values together are
followed by hand; whatever imports, calls or restores an object is refused.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError

MAX_BYTES = 1 << 16  # the published files have some 600
_MOST_VALUES = 10_000
_DEEPEST = 20

_NUMBERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"}
_TEXTS |= {"BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
_VALUES = frozenset(_NUMBERS | _TEXTS)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PUT = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GET = frozenset({"GET", "BINGET", "LONG_BINGET"})
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_options(path: Path | str) -> dict[str, Any]:
    """The dictionary of a pickle of dictionaries, lists, strings, numbers and booleans.

    Args:
        path: a pickle of any protocol, of Python 2 or 3.

    Raises:
        UserError: the file cannot be read, is no pickle, holds anything else, or is not a
            dictionary whose keys are strings.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        raw = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    if size > MAX_BYTES:
        raise UserError(f"{path} has {size} bytes; a file of options has {MAX_BYTES} at most.")
    try:
        value = _Reader(path).read(raw)
        _refuse_too_much(value)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a whole pickle of options ({error}).") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UserError(
            f"{path} holds a {type(value).__name__}; expected a dictionary of options by name."
        )
    return value


class _Mark:
    """Where a list of values begins on the stack."""


class _Reader:
    """Follows the harmless instructions of a pickle."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self, raw: bytes) -> Any:
        """The value the pickle describes."""
        for opcode, argument, position in pickletools.genops(raw):
            if opcode.name == "STOP":
                return self._stack.pop()
            self._follow(opcode.name, argument, position)
        raise ValueError("it does not end")

    def _follow(self, name: str, argument: Any, position: int | None) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _PUT:
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in _GET:
            stack.append(self._memo[argument])
        elif name == "MARK":
            stack.append(_Mark())
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in _TUPLES:
            start = len(stack) - _TUPLES[name]
            stack[start:] = [list(stack[start:])]
        elif name in ("LIST", "TUPLE"):
            stack.append(self._since_mark())
        elif name == "DICT":
            stack.append(_pairs(self._since_mark()))
        elif name in ("SETITEM", "SETITEMS"):
            values = self._since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            stack[-1].update(_pairs(values))
        elif name in ("APPEND", "APPENDS"):
            values = self._since_mark() if name == "APPENDS" else [stack.pop()]
            stack[-1].extend(values)
        elif name not in ("PROTO", "FRAME"):
            raise UserError(
                f"{self._path} holds more than dictionaries, lists, strings and numbers: the "
                f"instruction {name} at byte {position} makes or calls something of a program. "
                "It is not executed; ask its publisher for the options as JSON."
            )

    def _since_mark(self) -> list[Any]:
        start = len(self._stack) - 1
        while not isinstance(self._stack[start], _Mark):  # an IndexError where there is none
            start -= 1
        values = self._stack[start + 1 :]
        del self._stack[start:]
        return values


def _refuse_too_much(value: Any) -> None:
    """Raises ValueError for more than options.

    A list of a list twice, and so on for a hundred bytes, is 2^30 values to whoever shows it; one
    may hold itself.
    """
    seen, level = 0, [value]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += [*one.keys(), *one.values()]
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, int) and abs(one) >= 1 << 63:
                raise ValueError("it holds a number of more than 64 bits")
            seen += 1
            if seen + len(inner) > _MOST_VALUES:
                raise ValueError(f"it holds more than {_MOST_VALUES:,} values")
        level = inner
    if level:
        raise ValueError(f"its values are nested deeper than {_DEEPEST}")


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))
