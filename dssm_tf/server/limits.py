"""What the server takes from strangers at most, and how it says no."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


def _limit(default: float, what: str) -> Any:
    return field(default=default, metadata={"help": what})


@dataclass(frozen=True)
class Limits:
    """Each is a flag of `dssm serve`: `message_bytes` is `--message-bytes`."""

    message_bytes: int = _limit(4 << 20, "a request on the wire")
    texts: int = _limit(4096, "texts of an input")
    text_bytes: int = _limit(1 << 16, "a text, in UTF-8")
    total_bytes: int = _limit(8 << 20, "all texts of a request, repeated ones written out")
    pending_bytes: int = _limit(
        128 << 20, "all that is being received or sent; a gRPC request counts as message-bytes"
    )
    in_flight: int = _limit(32, "requests computed or waiting, over gRPC and REST together")
    connections: int = _limit(256, "connections, of each protocol")
    seconds: float = _limit(
        30.0, "a request, its body included; a silent connection ends after twice that"
    )


INVALID = ("INVALID_ARGUMENT", 400)
NOT_FOUND = ("NOT_FOUND", 404)
TOO_LARGE = ("RESOURCE_EXHAUSTED", 413)
FAILED = ("INTERNAL", 500)
BUSY = ("RESOURCE_EXHAUSTED", 503)
LATE = ("DEADLINE_EXCEEDED", 504)
GONE = ("CANCELLED", 499)  # the client did not wait


class Refusal(Exception):
    """A request that is not answered, and why in one short line.

    Args:
        kind: the name of the gRPC status and HTTP's code, one of those above.
        message: names the field of the request; no request makes a long answer.
    """

    def __init__(self, kind: tuple[str, int], message: str) -> None:
        super().__init__(" ".join(message.split())[:500])
        self.status, self.http = kind


class Budget:
    """Bytes that are held for all requests together, on one event loop."""

    def __init__(self, size: int) -> None:
        self._left = size

    @contextmanager
    def holding(self, size: int = 0) -> Iterator[Callable[[int], None]]:
        """Holds bytes while the block runs; yields what holds more of them.

        Raises:
            Refusal: so many are not left.
        """
        held = 0

        def hold(more: int) -> None:
            nonlocal held
            if more > self._left:
                raise Refusal(BUSY, "too much is being received or sent; ask again later.")
            self._left, held = self._left - more, held + more

        try:
            hold(size)
            yield hold
        finally:
            self._left += held
