"""What the server takes from strangers at most, and how it says no."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of `dssm serve`; more than that is refused at once.

    Attributes:
        message_bytes: a request on the wire
        texts: texts per input
        in_flight: requests being received, answered or sent, of each protocol; also answers being
            computed
        connections: connections per protocol
        seconds: a request, including its body; a silent connection is closed after twice that
    """

    message_bytes: int = 4 << 20
    texts: int = 4096
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
