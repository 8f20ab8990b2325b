"""Reads the bodies of requests, and limits their total size."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import ClientDisconnect, Request

from dssm_tf.server.limits import BUSY, CLIENT_CLOSED, INVALID, TOO_LARGE, Limits, Refusal


class _Body:
    """A body that arrives, and the task that reads it."""

    def __init__(self) -> None:
        self.content, self.size, self.is_evicted = bytearray(), 0, False
        self.task: asyncio.Task[Any] | None = asyncio.current_task()


class Bodies:
    """Counts the bytes of bodies. Call it from one event loop.

    If the bodies have more bytes than `buffer_bytes`, the largest incomplete one is refused, so
    slow clients do not block others.

    Attributes:
        total: the bytes of all bodies.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self.total = limits, 0
        self._arriving: set[_Body] = set()

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Reads a body. Its bytes count until the block ends.

        Raises:
            Refusal: the body is too large or not valid gzip; all bodies together are too large and
                this one is the largest; or the client closed the connection.
        """
        body = _Body()
        self._arriving.add(body)
        try:
            content = await self._receive(body, request)
            self._arriving.discard(body)
            encoding = request.headers.get("content-encoding", "identity").strip().lower()
            if encoding == "gzip":
                content = _unpack(content, self._limits.message_bytes)
                self._count(body, len(content) - body.size)
            elif encoding != "identity":
                raise Refusal(INVALID, f"content-encoding: {encoding!r:.60}; expected gzip.")
            body.content = bytearray()
            yield content
        finally:
            self._arriving.discard(body)
            self.total -= body.size

    async def _receive(self, body: _Body, request: Request) -> bytes:
        max_bytes, received = self._limits.message_bytes, 0
        try:
            # A body that is too long is read to its end: clients read the response only then.
            async for chunk in request.stream():
                received += len(chunk)
                if received <= max_bytes:
                    body.content += chunk
                    self._count(body, len(chunk))
                elif body.size:
                    body.content.clear()
                    self._count(body, -body.size)
        except ClientDisconnect:
            raise Refusal(CLIENT_CLOSED, "the client closed the connection.") from None
        except asyncio.CancelledError:
            if not body.is_evicted:
                raise
            if body.task is not None and hasattr(body.task, "uncancel"):
                body.task.uncancel()
            raise _too_many() from None
        if received > max_bytes:
            raise Refusal(TOO_LARGE, f"the body has more than {max_bytes:,} bytes.")
        return bytes(body.content)

    def _count(self, body: _Body, size: int) -> None:
        body.size += size
        self.total += size
        while self.total > self._limits.buffer_bytes:
            victims = [other for other in self._arriving if not other.is_evicted and other.size]
            if not victims:
                raise _too_many()
            victim = max(victims, key=lambda other: other.size)
            victim.is_evicted = True
            self.total -= victim.size
            victim.size = 0
            victim.content.clear()
            if victim is body:
                raise _too_many()
            if victim.task is not None:
                victim.task.cancel()


def _too_many() -> Refusal:
    return Refusal(BUSY, "too many bytes are being received; try again later.", closes=True)


def _unpack(content: bytes, max_bytes: int) -> bytes:
    """Unpacks gzip.

    Raises:
        Refusal: it is not gzip, or has more than `max_bytes` bytes.
    """
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(content, max_bytes + 1)
    except zlib.error:
        raise Refusal(INVALID, "the body is not gzip.") from None
    if len(unpacked) > max_bytes:
        raise Refusal(TOO_LARGE, f"the unpacked body has more than {max_bytes:,} bytes.")
    if not unpacker.eof:
        raise Refusal(INVALID, "the body ends before its gzip stream.")
    return unpacked
