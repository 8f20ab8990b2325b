"""Limits the requests that are computed at once, so that answers stay fast under overload.

A request needs one of a few slots to run; others wait. The newest waiting request runs next. A
request that has waited for `WAIT_SECONDS` is refused. So with any number of clients, the server
computes requests that it can answer in time (adaptive LIFO and controlled delay; Maurer 2015, "Fail
at Scale"). A long request takes several blocks of work. It does not delay short ones (see
`scheduler`), so it gives its slot back. The estimated time of long requests is limited instead.

Refusals are paced: in an overloaded server they are sent later, so that clients that try again at
once do not use up the processor.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import exp, inf
from time import monotonic

from dssm_tf.server.limits import BUSY, Limits, Refusal

WAIT_SECONDS = 0.1
"""The longest time that a request waits before it runs."""

RETRY_SECONDS = 1
"""The value of the header Retry-After."""

_RUNNING_PER_WORKER = 4
_FREE_REFUSALS = 32  # refusals that are not delayed
_REFUSALS_PER_ANSWER = 0.2  # at most, so that most of the processor is left for answers
_MIN_REFUSALS, _MAX_REFUSALS = 50.0, 200.0  # per second
_MAX_DELAY = 1.0  # seconds
_SMOOTHING = 1.0  # seconds
_SHORT_BYTES = 1 << 14  # bytes of a request that is always short


class Admission:
    """Counts the requests being computed or waiting. Call it from one event loop.

    Args:
        limits: the largest number of requests, and the time for a request.
        workers: number of worker threads.
        clock: returns the time in seconds.

    Attributes:
        running: the number of short requests being computed.
    """

    def __init__(
        self, limits: Limits, workers: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._limits, self._workers, self._clock = limits, workers, clock
        self._slots = min(_RUNNING_PER_WORKER * workers, limits.in_flight)
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._bytes = 0
        self._seconds_per_byte = 1e-6
        self._next_refusal = -inf
        self._answers_per_second, self._last_answer = 0.0, clock()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._waiting)

    async def enter(self, size: int) -> None:
        """Waits until a complete request of `size` bytes may run; `leave` must follow.

        Raises:
            Refusal: the request has waited too long, or long requests need too much time.
        """
        seconds = (self._bytes + size) * self._seconds_per_byte / self._workers
        if size > _SHORT_BYTES and self._bytes and seconds > self._limits.seconds / 3:
            raise _busy()
        if self.running < self._slots:
            self.running += 1
        else:
            await self._wait()
        self._bytes += size

    async def _wait(self) -> None:
        """Waits for the slot of another request."""
        if len(self._waiting) >= self._limits.in_flight - self._slots:
            if not self._waiting:
                raise _busy()
            _expire(self._waiting.popleft())
        loop = asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()
        self._waiting.append(slot)
        timer = loop.call_later(WAIT_SECONDS, _expire, slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self._free_slot()  # it was granted when the client left
            raise
        finally:
            timer.cancel()
            if slot in self._waiting:
                self._waiting.remove(slot)

    def _free_slot(self) -> None:
        """Gives a slot to the newest waiting request."""
        while self._waiting:
            slot = self._waiting.pop()
            if not slot.done():
                slot.set_result(None)
                return
        self.running -= 1

    def become_long(self) -> None:
        """Frees the slot of a running request that takes several blocks of work."""
        self._free_slot()

    def leave(self, size: int, computed: float, is_long: bool) -> None:
        """Records the end of a request, and frees its slot unless it is long.

        Args:
            size: its bytes.
            computed: seconds of work; 0 if it was not finished.
            is_long: whether `become_long` was called.
        """
        self._bytes -= size
        now = self._clock()
        # An exponential mean of the number of answers per second.
        decay = exp((self._last_answer - now) / _SMOOTHING)
        self._answers_per_second = decay * self._answers_per_second + 1 / _SMOOTHING
        self._last_answer = now
        if computed and size > _SHORT_BYTES:
            self._seconds_per_byte += 0.2 * (computed / size - self._seconds_per_byte)
        if not is_long:
            self._free_slot()

    def refusal_delay(self) -> float:
        """Seconds to wait before the next refusal is sent."""
        now = self._clock()
        rate = _REFUSALS_PER_ANSWER * self._answers_per_second
        rate = min(max(rate, _MIN_REFUSALS), _MAX_REFUSALS)
        self._next_refusal = max(self._next_refusal, now - _FREE_REFUSALS / rate) + 1 / rate
        self._next_refusal = min(self._next_refusal, now + _MAX_DELAY)
        return max(0.0, self._next_refusal - now)


def _expire(slot: asyncio.Future[None]) -> None:
    """Refuses a waiting request."""
    if not slot.done():
        slot.set_exception(_busy())


def _busy() -> Refusal:
    return Refusal(BUSY, "the server is busy; try again later.")
