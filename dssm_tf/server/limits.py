"""Limits on requests, and the error for requests that are not answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of `dssm serve`. A request over a limit is refused at once.

    Attributes:
        message_bytes: size of a request in bytes
        texts: texts per input
        in_flight: requests being received, answered or sent, per protocol; also answers being
            computed
        connections: connections per protocol
        seconds: time for a request, including its body; idle connections close after twice that
    """

    message_bytes: int = 4 << 20
    texts: int = 4096
    in_flight: int = 32
    connections: int = 256
    seconds: float = 30.0


DEFAULT_LIMITS = Limits()

INVALID = ("INVALID_ARGUMENT", 400)
NOT_FOUND = ("NOT_FOUND", 404)
TOO_LARGE = ("RESOURCE_EXHAUSTED", 413)
WRONG_TYPE = ("INVALID_ARGUMENT", 415)
FAILED = ("INTERNAL", 500)
BUSY = ("RESOURCE_EXHAUSTED", 503)
DEADLINE = ("DEADLINE_EXCEEDED", 504)
CLIENT_CLOSED = ("CANCELLED", 499)  # the client closed the connection


class Refusal(Exception):
    """A request that is not answered; the message is one short line.

    Args:
        kind: the name of the gRPC status and the HTTP status code, a constant of this module.
        message: names the field of the request; truncated to 500 characters.
    """

    def __init__(self, kind: tuple[str, int], message: str) -> None:
        super().__init__(" ".join(message.split())[:500])
        self.grpc_status, self.http_status = kind
