"""Reads requests, refuses repeated keys, and limits the total size of requests and of answers."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from threading import Lock
from typing import Any

from starlette.requests import ClientDisconnect, Request

from dssm_tf.common.json_files import repeated_key
from dssm_tf.server.limits import BUSY, CLIENT_CLOSED, INVALID, TOO_LARGE, Limits, Refusal

_PIECE = 4096  # bytes that are unpacked at once; zlib copies the rest at the end of each member


class _Body:
    """A body that arrives, and the task that reads it."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.size, self.is_evicted = 0, False
        self.task: asyncio.Task[Any] | None = asyncio.current_task()


class Bodies:
    """Counts the bytes of bodies. Call it from one event loop.

    If the bodies have more bytes than `buffer_bytes`, the largest incomplete one is refused, so
    slow clients do not block others. gRPC does not tell the bytes of an incomplete message, so the
    number of these is limited.

    Attributes:
        total: the bytes of all bodies, without incomplete messages.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self.total = limits, 0
        self._arriving: set[_Body] = set()
        self._messages: dict[_Body, None] = {}  # in the order of their calls
        self._max_messages = max(1, limits.buffer_bytes // limits.message_bytes)

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
            content = await self._unless_evicted(body, self._receive(body, request))
            self._arriving.discard(body)
            encoding = request.headers.get("content-encoding", "identity").strip().lower()
            if encoding == "gzip":
                content = _unpack(content, self._limits.message_bytes)
                self._count(body, len(content) - body.size)
            elif encoding != "identity":
                raise Refusal(INVALID, f"content-encoding: {encoding!r:.60}; expected gzip.")
            body.chunks.clear()
            yield content
        finally:
            self._arriving.discard(body)
            self.total -= body.size

    @asynccontextmanager
    async def read_message(self, read: Callable[[], Awaitable[Any]]) -> AsyncIterator[Any]:
        """Reads a message of a gRPC call. Its bytes count until the block ends.

        Raises:
            Refusal: too many messages are incomplete, and this one has been for longest; or all
                bodies and messages together are too large.
        """
        body = _Body()
        self._messages[body] = None
        if len(self._messages) > self._max_messages:
            self._evict(next(iter(self._messages)))
        try:
            message = await self._unless_evicted(body, read())
            self._messages.pop(body, None)
            self._count(body, len(message) if isinstance(message, bytes) else 0)
            yield message
        finally:
            self._messages.pop(body, None)
            self.total -= body.size

    async def _unless_evicted(self, body: _Body, work: Awaitable[Any]) -> Any:
        """Awaits work; raises Refusal if the body is evicted meanwhile."""
        try:
            return await work
        except asyncio.CancelledError:
            if not body.is_evicted:
                raise
            if body.task is not None and hasattr(body.task, "uncancel"):
                body.task.uncancel()
            raise _too_many() from None

    def _evict(self, body: _Body) -> None:
        """Ends the task that reads a body."""
        self._messages.pop(body, None)
        body.is_evicted = True
        self.total -= body.size
        body.size = 0
        body.chunks.clear()
        if body.task is not None:
            body.task.cancel()

    async def _receive(self, body: _Body, request: Request) -> bytes:
        max_bytes, received = self._limits.message_bytes, 0
        try:
            # A body that is too long is read to its end: clients read the response only then.
            async for chunk in request.stream():
                received += len(chunk)
                if received <= max_bytes:
                    body.chunks.append(chunk)
                    self._count(body, len(chunk))
                elif body.size:
                    body.chunks.clear()
                    self._count(body, -body.size)
        except ClientDisconnect:
            raise Refusal(CLIENT_CLOSED, "the client closed the connection.") from None
        if received > max_bytes:
            raise Refusal(TOO_LARGE, f"the body has more than {max_bytes:,} bytes.")
        return b"".join(body.chunks)

    def _count(self, body: _Body, size: int) -> None:
        body.size += size
        self.total += size
        while self.total > self._limits.buffer_bytes:
            victims = [other for other in self._arriving if not other.is_evicted and other.size]
            if not victims:
                raise _too_many()
            victim = max(victims, key=lambda other: other.size)
            if victim is body:
                victim.chunks.clear()
                raise _too_many()
            self._evict(victim)


class Answers:
    """Counts the bytes of answers that are being computed or sent. Threads may share it.

    Args:
        limits: has the largest number of bytes.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self._lock, self.total = limits, Lock(), 0

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Counts an answer until the block ends.

        Raises:
            Refusal: it is too large, or all answers together are.
        """
        if size > self._limits.buffer_bytes // 2:
            raise Refusal(
                TOO_LARGE,
                f"the answer would have {size:,} bytes; at most {self._limits.buffer_bytes // 2:,} "
                "are allowed; send fewer texts.",
            )
        with self._lock:
            if self.total and self.total + size > self._limits.buffer_bytes:
                raise Refusal(BUSY, "too many bytes of answers are not sent yet; try again later.")
            self.total += size
        try:
            yield
        finally:
            with self._lock:
                self.total -= size


def refuse_repeats(pairs: Sequence[tuple[str, Any]], where: str = "one object") -> None:
    """Raises Refusal if two pairs of key and value have the same key.

    Args:
        pairs: the pairs.
        where: the part of the request that has them, for the message.
    """
    if (key := repeated_key(pairs)) is not None:
        raise Refusal(INVALID, f"{key!r:.100} is in {where} more than once; give it once.")


def refuse_repeated_keys(text: str | bytes) -> None:
    """Raises Refusal if an object of a JSON text has a key twice; parsers take the last value.

    A text that is not JSON passes: the parser that reads it has the message.
    """
    with suppress(ValueError, RecursionError):
        # Numbers are not needed, and a long one takes long.
        json.loads(text, object_pairs_hook=refuse_repeats, parse_int=len, parse_float=len)


def _too_many() -> Refusal:
    return Refusal(BUSY, "too many bytes are being received; try again later.", closes=True)


def _unpack(content: bytes, max_bytes: int) -> bytes:
    """Unpacks gzip, which may have several members (RFC 1952).

    Raises:
        Refusal: it is not gzip, has bytes between or after members, or has more than `max_bytes`
            bytes.
    """
    unpacker = zlib.decompressobj(wbits=31)
    unpacked, size = [], 0
    for start in range(0, len(content), _PIECE):
        piece = content[start : start + _PIECE]
        while piece:
            if unpacker.eof:
                unpacker = zlib.decompressobj(wbits=31)
            try:
                unpacked.append(unpacker.decompress(piece, max_bytes + 1 - size))
            except zlib.error:
                raise Refusal(
                    INVALID, "the body is not gzip, or has other bytes after it."
                ) from None
            size += len(unpacked[-1])
            if size > max_bytes:
                raise Refusal(TOO_LARGE, f"the unpacked body has more than {max_bytes:,} bytes.")
            piece = unpacker.unused_data
    if not unpacker.eof:
        raise Refusal(INVALID, "the body ends before its gzip stream.")
    return b"".join(unpacked)
