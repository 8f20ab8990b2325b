"""Limits the requests that are computed or waiting, so that answers stay fast under overload.

A request is refused when it arrives, if the requests before it need longer than `WAIT_SECONDS`. So
with any number of clients, the server computes only requests that it can answer in time (controlled
delay; Maurer 2015, "Fail at Scale"). A long request takes several blocks of work. It does not delay
short ones (see `scheduler`), so it is not counted with them. The estimated time of long requests is
limited instead.

Refusals are delayed: in an overloaded server they are sent later, so that clients that try again at
once do not use up the processor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import exp, inf
from random import uniform
from time import monotonic

from dssm_tf.server.limits import BUSY, Limits, Refusal

WAIT_SECONDS = 0.1
"""The longest time that a short request is expected to wait."""

RETRY_SECONDS = 1
"""The value of the header Retry-After."""

_RUNNING_PER_WORKER = 4  # requests that are never refused
_FREE_REFUSALS = 32  # refusals that are not delayed
_REFUSALS_PER_ANSWER = 0.2  # at most, so that most of the processor is left for answers
_MIN_REFUSALS, _MAX_REFUSALS = 50.0, 200.0  # per second
_MAX_DELAY = 5.0  # seconds
_SMOOTHING = 1.0  # seconds
_SHORT_BYTES = 1 << 14  # bytes of a request that is always short


class Admission:
    """Counts the requests being computed or waiting. Call it from one event loop.

    Args:
        limits: the largest number of requests, and the time for a request.
        workers: number of worker threads.
        clock: returns the time in seconds.

    Attributes:
        running: the number of short requests being computed or waiting.
    """

    def __init__(
        self, limits: Limits, workers: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._limits, self._workers, self._clock = limits, workers, clock
        self.running = 0
        self._bytes = 0
        self._seconds_per_byte = 1e-6
        self._seconds_per_request = 0.0
        self._next_refusal, self._delayed = -inf, 0
        self._answers_per_second, self._last_answer = 0.0, clock()

    def enter(self, size: int) -> float:
        """Admits a complete request of `size` bytes; `leave` must follow.

        Returns:
            The time.

        Raises:
            Refusal: the requests before it need too much time.
        """
        seconds = (self._bytes + size) * self._seconds_per_byte / self._workers
        if size > _SHORT_BYTES and self._bytes and seconds > self._limits.seconds / 3:
            raise _busy()
        is_slow = self.running * self._seconds_per_request > WAIT_SECONDS
        if self.running >= self._limits.in_flight or (
            is_slow and self.running >= _RUNNING_PER_WORKER * self._workers
        ):
            raise _busy()
        self.running += 1
        self._bytes += size
        return self._clock()

    def become_long(self) -> None:
        """No longer counts a request, which takes several blocks of work, as a short one."""
        self.running -= 1

    def leave(self, entered: float, size: int, computed: float, is_long: bool) -> None:
        """Records the end of a request.

        Args:
            entered: what `enter` returned.
            size: its bytes.
            computed: seconds of work; 0 if it was not finished.
            is_long: whether `become_long` was called.
        """
        self._bytes -= size
        now = self._clock()
        # An exponential mean of the number of answers per second.
        decay = exp((self._last_answer - now) / _SMOOTHING)
        self._answers_per_second = decay * self._answers_per_second + 1 / _SMOOTHING
        if computed and size > _SHORT_BYTES:
            self._seconds_per_byte += 0.2 * (computed / size - self._seconds_per_byte)
        if not is_long:
            self.running -= 1
            # The server has worked on this request, or on those before it, since then.
            seconds = now - max(self._last_answer, entered)
            self._seconds_per_request += 0.05 * (seconds - self._seconds_per_request)
        self._last_answer = now

    async def delay_refusal(self) -> None:
        """Waits before a refusal is sent, unless too many others wait."""
        if self._delayed < self._limits.connections:
            self._delayed += 1
            try:
                await asyncio.sleep(self.refusal_delay())
            finally:
                self._delayed -= 1

    def refusal_delay(self) -> float:
        """Seconds to wait before the next refusal is sent."""
        now = self._clock()
        rate = _REFUSALS_PER_ANSWER * self._answers_per_second
        rate = min(max(rate, _MIN_REFUSALS), _MAX_REFUSALS)
        self._next_refusal = max(self._next_refusal, now - _FREE_REFUSALS / rate) + 1 / rate
        self._next_refusal = min(self._next_refusal, now + _MAX_DELAY)
        # Clients that are refused together do not return together.
        return max(0.0, self._next_refusal - now) * uniform(0.5, 1)


def _busy() -> Refusal:
    return Refusal(BUSY, "the server is busy; try again later.")
