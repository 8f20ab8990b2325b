"""Damage as disks, cut copies and curious people do it, the same for a seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random


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
