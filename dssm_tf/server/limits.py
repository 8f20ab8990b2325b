"""Limits on requests, and the error for requests that are not answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of `dssm serve`.

    Attributes:
        message_bytes: size of a request in bytes, also of an unpacked one
        texts: texts per input
        words: words of all texts of a request
        in_flight: requests being computed or waiting; fewer if they would wait for more than 0.1 s
        buffer_bytes: bytes of requests being received or waiting, and as many of unread answers
        connections: connections per protocol; the longest idle one makes room for a new one
        seconds: time for a request, including its body; idle connections close after twice that
    """

    message_bytes: int = 4 << 20
    texts: int = 4096
    words: int = 100_000
    in_flight: int = 128
    buffer_bytes: int = 64 << 20
    connections: int = 2048
    seconds: float = 30.0


DEFAULT_LIMITS = Limits()

INVALID = ("INVALID_ARGUMENT", 400)
NOT_FOUND = ("NOT_FOUND", 404)
WRONG_METHOD = ("UNIMPLEMENTED", 405)
TOO_LARGE = ("RESOURCE_EXHAUSTED", 413)
WRONG_TYPE = ("INVALID_ARGUMENT", 415)
CLIENT_CLOSED = ("CANCELLED", 499)  # the client closed the connection
FAILED = ("INTERNAL", 500)
BUSY = ("RESOURCE_EXHAUSTED", 503)
DEADLINE = ("DEADLINE_EXCEEDED", 504)

REASONS = {
    INVALID: "invalid", NOT_FOUND: "not_found", WRONG_METHOD: "method",
    TOO_LARGE: "too_large", WRONG_TYPE: "content_type", CLIENT_CLOSED: "client_closed",
    FAILED: "failed", BUSY: "busy", DEADLINE: "deadline",
}  # fmt: skip
"""The name of each kind of refusal in the metrics."""


class Refusal(Exception):
    """A request that is not answered; the message is one short line.

    Args:
        kind: the name of the gRPC status and the HTTP status code, a constant of this module.
        message: names the field of the request; truncated to 500 characters.
        closes: whether the connection is closed, because its request is not read to its end.
    """

    def __init__(self, kind: tuple[str, int], message: str, closes: bool = False) -> None:
        super().__init__(" ".join(message.split())[:500])
        self.kind, self.closes = kind, closes
        self.grpc_status, self.http_status = kind
