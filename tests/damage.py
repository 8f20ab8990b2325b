"""Damage as disks, cut copies and curious people do it, the same for a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 10**18, 1e308, "", "text", [], {}, [1, "a"], {"a": None}, [[[]]],
)  # fmt: skip
"""Values of other types and ranges than a field has."""


def mangled(raw: bytes, random: Random) -> Iterator[bytes]:
    """A file cut, lengthened, overwritten in places, and with flipped bits."""
    yield b""
    yield raw[: random.randrange(len(raw) + 1)]
    yield raw + random.randbytes(9)
    yield random.randbytes(len(raw))
    for _ in range(4):
        changed = bytearray(raw)
        for _ in range(random.choice([1, 1, 5])):
            changed[random.randrange(len(raw))] ^= 1 << random.randrange(8)
        yield bytes(changed)
    changed = bytearray(raw)
    start = random.randrange(len(raw))
    changed[start : start + 16] = random.randbytes(16)
    yield bytes(changed)


def odd_json(value: Any, random: Random, number: int) -> Iterator[bytes]:
    """JSON with one value somewhere in it replaced by one of `ODD`, or taken away."""
    for _ in range(number):
        whole = [json.loads(json.dumps(value))]
        parent, key = random.choice(list(_places(whole)))
        if random.random() < 0.1 and parent is not whole:
            del parent[key]
        else:
            parent[key] = random.choice(ODD)
        yield json.dumps(whole[0]).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def odd_arrays(
    arrays: dict[str, np.ndarray], random: Random, number: int
) -> Iterator[dict[str, np.ndarray]]:
    """The arrays of a model with one of them of another shape, type or range."""
    names = sorted(set(arrays) - {"settings"})
    for _ in range(number if names else 0):
        name = random.choice(names)
        array = arrays[name]
        changed = {
            "short": lambda a=array: a[: len(a) // 2],
            "long": lambda a=array: np.concatenate([a, a]),
            "flat": lambda a=array: a.ravel(),
            "deep": lambda a=array: a[None],
            "none": lambda a=array: a[:0],
            "far": lambda a=array: (a * 0 + 1_000_000).astype(a.dtype),
            "negative": lambda a=array: (-a - 1).astype(a.dtype),
            "nan": lambda a=array: a * np.nan,
            "other": lambda a=array: a.astype(random.choice(["f2", "f4", "f8", "i8", "u1", "?"])),
            "turned": lambda a=array: a[::-1],
            "text": lambda a=array: a.astype(str),
        }
        if random.random() < 0.1:
            yield {key: value for key, value in arrays.items() if key != name}
        else:
            yield arrays | {name: changed[random.choice(list(changed))]()}
