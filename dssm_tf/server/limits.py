"""What the server takes from strangers at most, and how it says no."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of `dssm serve`; more than that is refused at once.

    Attributes:
        message_bytes: a request on the wire; also an input's texts, repeats included
        texts: texts per input
        text_bytes: a text, in UTF-8
        pending_bytes: everything being received or sent; a gRPC request counts as --message-bytes
        in_flight: requests running or waiting, gRPC and REST together
        connections: connections per protocol
        seconds: a request, including its body; a silent connection is closed after twice that
    """

    message_bytes: int = 4 << 20
    texts: int = 4096
    text_bytes: int = 1 << 16
    pending_bytes: int = 128 << 20
    in_flight: int = 32
    connections: int = 256
    seconds: float = 30.0


DEFAULT = Limits()

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
                raise Refusal(BUSY, "too much is being received or sent; try again later.")
            self._left, held = self._left - more, held + more

        try:
            hold(size)
            yield hold
        finally:
            self._left += held
