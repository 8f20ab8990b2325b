"""Reads the bodies of requests."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from dssm_tf.server.limits import CLIENT_CLOSED, TOO_LARGE, Refusal


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The body of a request.

    Raises:
        Refusal: the body is too large, or the client closed the connection.
    """
    body = bytearray()
    try:
        # A body that is too long is read to its end: clients read the response only then.
        async for chunk in request.stream():
            if len(body) <= max_bytes:
                body += chunk
    except ClientDisconnect:
        raise Refusal(CLIENT_CLOSED, "the client closed the connection.") from None
    if len(body) > max_bytes:
        raise Refusal(TOO_LARGE, f"the body has more than {max_bytes:,} bytes.")
    return bytes(body)
