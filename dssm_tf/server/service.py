"""Answers the requests of all protocols within the limits, and counts them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TypeVar

from dssm_tf.server.admission import Admission
from dssm_tf.server.bodies import Answers, Bodies
from dssm_tf.server.limits import BUSY, DEADLINE, FAILED, Limits, Refusal
from dssm_tf.server.metrics import Metrics
from dssm_tf.server.models import Snapshot
from dssm_tf.server.scheduler import Blocks, Job, Scheduler

_LOG = logging.getLogger("dssm_tf.server")
_T = TypeVar("_T")


_QUICK_SECONDS = 0.005  # a longer computation in the event loop would delay health checks
_QUICK_COUNT = 50  # requests before a mean is trusted
_QUICK_BYTES = 1 << 14


class _Mean:
    """An exponential moving average of the seconds that small requests of one kind take."""

    def __init__(self) -> None:
        self._count, self._seconds = 0, 0.0

    def add(self, seconds: float) -> None:
        self._count += 1
        self._seconds += (seconds - self._seconds) / min(self._count, 20)

    def is_quick(self) -> bool:
        return self._count >= _QUICK_COUNT and self._seconds < _QUICK_SECONDS


class Service:
    """The models of a server and its worker threads. Call its methods from one event loop.

    Args:
        snapshot: the models and the index.
        limits: see `Limits`.

    Attributes:
        snapshot: the models and the index; replaced when a new version is loaded.
        bodies: counts the bytes of requests.
        answers: counts the bytes of answers.
        metrics: Prometheus metrics of all requests, including refused ones.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.snapshot, self.limits = snapshot, limits
        workers = os.cpu_count() or 1
        self.scheduler = Scheduler(workers)
        self.admission = Admission(limits, workers)
        self.bodies, self.answers = Bodies(limits), Answers(limits)
        self._means = defaultdict[str, _Mean](_Mean)
        self.metrics = Metrics(lambda: self.snapshot, self.admission, self.bodies)

    async def handle(self, api: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Runs a request within its time limit, and counts it.

        Raises:
            Refusal: the server is busy, the request took too long, or it failed.
        """
        started, status = perf_counter(), "CANCELLED"
        try:
            answer = await asyncio.wait_for(work(), self.limits.seconds)
            status = "OK"
            return answer
        except Exception as raised:
            error = self._refusal_of(api, raised)
            status = error.grpc_status
            raised.__traceback__ = None  # its frames keep the body of the request in memory
            del raised
            self.metrics.count_refusal(api, error)
            # A connection to be closed would keep its received bytes during a delay.
            if error.kind == BUSY and not error.closes:
                await self.admission.delay_refusal()
            raise error from None
        finally:
            self.metrics.count_request(api, status, perf_counter() - started)

    def _refusal_of(self, api: str, error: Exception) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if isinstance(error, asyncio.TimeoutError):  # another class before Python 3.11
            return Refusal(DEADLINE, f"not answered within {self.limits.seconds:g} s.", closes=True)
        # The text of the error may contain a query, so it is not logged.
        _LOG.error("%s: a request failed: %s", api, type(error).__name__)
        return Refusal(FAILED, f"the model failed ({type(error).__name__}).")

    async def compute(self, api: str, size: int, blocks: Callable[[], Blocks[_T]]) -> _T:
        """Computes a request in a worker, or a small one in the event loop if its kind is quick.

        Args:
            api: the kind of request.
            size: bytes of the request.
            blocks: creates the work, in blocks.

        Raises:
            Refusal: too many requests are running or waiting, or the work raises it.
        """
        work = blocks()  # may raise a refusal
        loop, started, is_long = asyncio.get_running_loop(), perf_counter(), False
        entered = self.admission.enter(size)

        def become_long() -> None:
            nonlocal is_long
            if not is_done:
                is_long = True
                self.admission.become_long()

        is_done = False
        job = Job(work, lambda: _call(loop, become_long))
        mean = self._means[api] if size <= _QUICK_BYTES else None
        run = self.scheduler.run
        if mean is not None and mean.is_quick():
            run = self.scheduler.run_here
        try:
            return await run(job)
        finally:
            is_done = True
            ended = perf_counter()
            computed = job.computed if job.future.done() and not job.future.cancelled() else 0.0
            self.admission.leave(entered, size, computed, is_long)
            if computed and job.future.exception() is None:  # refusals take less time
                if mean is not None:
                    mean.add(computed)
                self.metrics.observe_stage("wait", job.started - started)
                self.metrics.observe_stage("compute", ended - job.started)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Calls a function in an event loop from another thread, unless the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)
