"""Stable 64-bit hashes of texts: the same on every machine, Python and run."""

from __future__ import annotations

from hashlib import blake2b


def fingerprint64(text: str) -> int:
    """A signed 64-bit fingerprint (BLAKE2b) of a normalized text.

    >>> fingerprint64("ice cream") == fingerprint64("ice cream")
    True
    """
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def hash_to_unit_interval(text: str, salt: str) -> float:
    """Hashes a text to [0, 1), for splits and samples. Another salt gives an independent number."""
    digest = blake2b(
        text.encode("utf-8", "surrogatepass"),
        digest_size=8,
        salt=blake2b(salt.encode(), digest_size=16).digest(),
    ).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)
