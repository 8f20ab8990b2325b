"""Stable 64-bit hashes of texts: the same on every machine, Python and run."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FACTOR = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio


def fingerprint64(text: str) -> int:
    """A signed 64-bit fingerprint (BLAKE2b) of a normalized text.

    >>> fingerprint64("ice cream") == fingerprint64("ice cream")
    True
    """
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def hash_to_unit_interval(text: str, salt: str) -> float:
    """Hashes a text to [0, 1), for splits and samples. Different salts give independent numbers."""
    digest = blake2b(
        text.encode("utf-8", "surrogatepass"),
        digest_size=8,
        salt=blake2b(salt.encode(), digest_size=16).digest(),
    ).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def pair_fingerprints(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fingerprints of pairs: `first * 0x9e3779b97f4a7c15 + second` modulo 2^64.

    The factor makes the fingerprint of a pair differ from that of the exchanged pair.

    Args:
        first: fingerprints int64 `(pairs,)`.
        second: fingerprints int64 `(pairs,)`.

    >>> import numpy as np
    >>> first, second = np.array([1]), np.array([2])
    >>> pair_fingerprints(first, second) - pair_fingerprints(first, first)
    array([1])
    """
    import numpy as np

    pairs = first.view(np.uint64) * np.uint64(_FACTOR) + second.view(np.uint64)
    return pairs.view(np.int64)
