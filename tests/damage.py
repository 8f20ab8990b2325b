"""Damage as disks, cut copies and curious people do it, the same for a seed."""

from __future__ import annotations

from random import Random

BITS = (
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


def corrupted(raw: bytes, random: Random) -> bytes:
    """The bytes with a few changes: flipped, cut, doubled or strange ones."""
    data = bytearray(raw)
    for _ in range(random.choice([1, 1, 2, 8])):
        at, other = sorted(random.randrange(len(data) + 1) for _ in range(2))
        match random.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1:
                del data[at:other]
            case 2:
                data[at:at] = data[at:other]
            case _:
                data[at:at] = random.choice(BITS) * random.choice([1, 1, 300])
    return bytes(data)
