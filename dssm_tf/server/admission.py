"""Decides which requests are computed, so that answered ones are fast when too many arrive.

The number of requests that are computed or wait is limited. The limit adapts: it shrinks while
answers take longer than `TARGET_SECONDS`, and grows while they are faster and requests are refused
(additive increase, multiplicative decrease). Long requests, which take several blocks of work, do
not delay short ones (see `scheduler`), so they do not count; their estimated time does.

Refusals are paced: a client that is refused in an overloaded server gets the refusal later, so that
clients that try again at once do not use up the processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from dssm_tf.server.limits import BUSY, Limits, Refusal

TARGET_SECONDS = 0.1
"""The limit shrinks while the slowest tenth of short requests takes longer."""

RETRY_SECONDS = 1
"""The value of the header Retry-After."""

_WINDOW = 0.2  # seconds
_LEAST, _STEP, _FACTOR = 4, 4, 0.75  # of the limit
_FREE_REFUSALS = 32  # refusals that are not delayed
_REFUSALS_PER_SECOND = 200.0
_MAX_DELAY = 5.0  # seconds
_SMALL = 1 << 14  # bytes of a request that is always short

_BUSY = "the server is busy; try again later."


class Admission:
    """Counts the requests being computed or waiting. Call it from one event loop.

    Args:
        limits: the largest number of requests, and the time for a request.
        workers: number of worker threads.
        clock: returns the time in seconds.
    """

    def __init__(
        self, limits: Limits, workers: int, clock: Callable[[], float] = monotonic
    ) -> None:
        self._limits, self._workers, self._clock = limits, workers, clock
        self.limit = min(32, limits.in_flight)
        self.short = 0
        self._waiting_bytes = 0
        self._seconds_per_byte = 1e-6
        self._latencies: deque[float] = deque(maxlen=1000)
        self._window_start = clock()
        self._was_full = False
        self._next_refusal = clock()

    def enter(self, size: int) -> None:
        """Counts a complete request of `size` bytes.

        Raises:
            Refusal: too many requests are running, or the long ones need too much time.
        """
        if self.short >= self.limit:
            self._was_full = True
            raise Refusal(BUSY, _BUSY)
        seconds = (self._waiting_bytes + size) * self._seconds_per_byte / self._workers
        if size > _SMALL and self._waiting_bytes and seconds > self._limits.seconds / 3:
            raise Refusal(BUSY, _BUSY)
        self.short += 1
        self._waiting_bytes += size

    def become_long(self) -> None:
        """A request turned out to be long: it leaves its place to short ones."""
        self.short -= 1

    def leave(self, size: int, latency: float, computed: float, is_long: bool) -> None:
        """A request ended.

        Args:
            size: its bytes.
            latency: seconds since `enter`.
            computed: seconds of work; 0 if it was not finished.
            is_long: whether `become_long` was called.
        """
        self._waiting_bytes -= size
        if computed and size > _SMALL:
            self._seconds_per_byte += 0.2 * (computed / size - self._seconds_per_byte)
        if not is_long:
            self.short -= 1
            self._latencies.append(latency)
        if self._clock() - self._window_start > _WINDOW:
            self._adapt()

    def _adapt(self) -> None:
        self._window_start = self._clock()
        latencies = sorted(self._latencies)
        self._latencies.clear()
        slow = latencies[len(latencies) * 9 // 10] if latencies else 0.0
        if slow > TARGET_SECONDS:
            self.limit = max(min(_LEAST, self._limits.in_flight), int(self.limit * _FACTOR))
        elif self._was_full:
            self.limit = min(self._limits.in_flight, self.limit + _STEP)
        self._was_full = False

    def refusal_delay(self) -> float:
        """Seconds to wait before the next refusal is sent."""
        now = self._clock()
        earliest = now - _FREE_REFUSALS / _REFUSALS_PER_SECOND
        self._next_refusal = max(self._next_refusal, earliest) + 1 / _REFUSALS_PER_SECOND
        delay = self._next_refusal - now
        if delay > _MAX_DELAY:
            self._next_refusal = now + _MAX_DELAY
        return min(max(0.0, delay), _MAX_DELAY)
