"""HTTP/1.1 connections of uvicorn, limited in number, in time and in unread bytes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import monotonic
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dssm_tf.server.limits import Limits

_HEAD_BYTES = 1 << 15
_SWEEP_SECONDS = 1.0
_NEW_SECONDS = 1.0
_READ_BYTES = 1 << 15  # bytes that are read from a connection at once, before they are counted
_BUFFER_BYTES = 1 << 16  # a connection with fewer unread bytes is ignored


class Connections:
    """The connections of a server.

    A connection is idle while it has no complete head of a request. Idle connections are closed
    after `2 * limits.seconds`. If there are too many connections, the longest idle one is closed;
    without an idle one, the one whose body has been arriving for longest, or else the one that has
    waited for its answer for longest, which is a delayed refusal. So health checks are always
    answered.

    Args:
        limits: see `Limits`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._idle: OrderedDict[LimitedProtocol, float] = OrderedDict()
        self._receiving: OrderedDict[LimitedProtocol, float] = OrderedDict()
        self._answering: OrderedDict[LimitedProtocol, float] = OrderedDict()
        self._unread: OrderedDict[LimitedProtocol, float] = OrderedDict()
        self._sweeper: asyncio.TimerHandle | None = None

    def add(self, connection: LimitedProtocol, count: int) -> None:
        """Registers a new connection; closes another one if `count`, their number, is too high."""
        self.become_idle(connection)
        if count > self._limits.connections:
            self._make_room(connection)
        if self._sweeper is None:
            self._sweeper = connection.loop.call_later(_SWEEP_SECONDS, self._sweep, connection.loop)

    def _make_room(self, connection: LimitedProtocol) -> None:
        """Closes another connection: one that waits for long, or else one whose body arrives."""
        waiting = (self._idle, self._receiving, self._answering)
        new = (self._receiving, self._idle, self._answering)
        for age, groups in ((_NEW_SECONDS, waiting), (0.0, new)):
            for connections in groups:
                for oldest, since in connections.items():
                    if monotonic() - since < age:
                        break
                    if oldest is not connection and not oldest.transport.is_closing():
                        oldest.transport.abort()
                        connections.pop(oldest)
                        return

    def become_idle(self, connection: LimitedProtocol) -> None:
        """Records that a connection waits for a request."""
        self._receiving.pop(connection, None)
        self._answering.pop(connection, None)
        self._idle[connection] = monotonic()
        self._idle.move_to_end(connection)

    def begin_body(self, connection: LimitedProtocol) -> None:
        """Records that the head of a request is complete."""
        self._idle.pop(connection, None)
        self._receiving[connection] = monotonic()

    def end_body(self, connection: LimitedProtocol) -> None:
        """Records that a request is complete."""
        self._receiving.pop(connection, None)
        if connection not in self._idle:  # not answered before its body was complete
            self._answering[connection] = monotonic()

    def respond(self, connection: LimitedProtocol) -> None:
        """Counts the bytes of a written response until the client has read them.

        If clients leave too many bytes unread, the connections with most of them are closed.
        """
        if connection.transport.get_write_buffer_size() <= _BUFFER_BYTES:
            return
        self._unread.setdefault(connection, monotonic())
        sizes = {other: other.transport.get_write_buffer_size() for other in self._unread}
        while sum(sizes.values()) > self._limits.buffer_bytes:
            largest = max(sizes, key=lambda other: sizes[other])
            del sizes[largest]
            connection.loop.call_soon(largest.transport.abort)

    def remove(self, connection: LimitedProtocol) -> None:
        """Removes a closed connection."""
        for connections in (self._idle, self._receiving, self._answering, self._unread):
            connections.pop(connection, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes connections that have been idle, receiving or unread for too long."""
        earliest = monotonic() - 2 * self._limits.seconds
        for connections in (self._idle, self._receiving, self._unread):
            for connection, since in list(connections.items()):
                if connections is self._unread:
                    if not connection.transport.get_write_buffer_size():
                        connections.pop(connection)
                        continue
                elif since > earliest:
                    break
                if since <= earliest:
                    connection.transport.abort()
        self._sweeper = loop.call_later(_SWEEP_SECONDS, self._sweep, loop)


class LimitedProtocol(HttpToolsProtocol):
    """A connection. A subclass sets `registry`, the connections of its server."""

    registry: Connections
    transport: Any

    def connection_made(self, transport: Any) -> None:
        """Registers the connection."""
        super().connection_made(transport)
        transport.max_size = _READ_BYTES  # 256 KiB in asyncio
        self._head_bytes, self._in_head = 0, True
        self.registry.add(self, len(self.connections))

    def data_received(self, data: bytes) -> None:
        """Parses bytes; a head that is too long is refused."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > _HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("Head too long.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        """The head of a request is complete."""
        self._head_bytes, self._in_head = 0, False
        self.registry.begin_body(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is complete."""
        super().on_message_complete()
        self.registry.end_body(self)

    def on_response_complete(self) -> None:
        """A response was written."""
        super().on_response_complete()
        self.registry.respond(self)
        if not self.pipeline and not self.transport.is_closing():
            self.registry.become_idle(self)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps the connection if the client closed its half after a complete request."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False  # for the header `connection: close`
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Removes the connection from the registry."""
        self.registry.remove(self)
        super().connection_lost(exc)


def limited_protocol(limits: Limits) -> type[LimitedProtocol]:
    """The protocol of the connections of one server."""
    return type("LimitedProtocol", (LimitedProtocol,), {"registry": Connections(limits)})
