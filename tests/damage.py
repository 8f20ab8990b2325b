"""Random damage to files, reproducible by a seed."""

from __future__ import annotations

from random import Random

FRAGMENTS = (
    b"\x00",
    b'"',
    b"\n",
    b"\t",
    b"\xff",
    b"\xfe\xff",
    b"<",
    b">",
    b"[" * 3000,
    b"{",
    b"e999999",
    b"-",
    b"9" * 400,
    b"\xed\xa0\x80",
    b"\\ud800",
    b"1e308",
    b"NaN",
    b"</",
    b"'",
)


def damage(raw: bytes, random: Random) -> bytes:
    """Makes a few changes: flips bits, and deletes, repeats or inserts bytes."""
    data = bytearray(raw)
    for _ in range(random.choice([1, 1, 2, 8])):
        start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
        match random.randrange(5):
            case 0 if start < len(data):
                data[start] ^= 1 << random.randrange(8)
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end]
            case _:
                data[start:start] = random.choice(FRAGMENTS) * random.choice([1, 1, 300])
    return bytes(data)
