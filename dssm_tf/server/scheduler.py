"""Worker threads that compute requests in blocks, the request with the least work so far first.

A request is a generator that yields between its blocks. After each block, the worker continues
with the request that has had the least time so far. So a request with many texts does not delay
short ones (least attained service; Nuyens and Wierman 2008). A request whose client has left, or
whose deadline has passed, ends before its next block.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Generic, TypeVar

_WORK_SECONDS = 0.04  # of computing in the event loop between two pauses
_PAUSE_SECONDS = 0.002
_MAX_PAUSES = 10

_T = TypeVar("_T")
Blocks = Generator[None, None, _T]
"""Work in blocks; the returned value is the result."""


@dataclass
class Job(Generic[_T]):
    """A request in the queue of the workers.

    Attributes:
        blocks: the work.
        future: its result.
        on_long: called in a worker when the work has not ended after its second block.
        started: time of the first block, of `perf_counter`; 0 before.
        computed: seconds of work so far.
        steps: the number of blocks so far.
    """

    blocks: Blocks[_T]
    on_long: Callable[[], None]
    future: Future[_T] = field(default_factory=Future)
    started: float = 0.0
    computed: float = 0.0
    steps: int = 0


class Scheduler:
    """The worker threads.

    Args:
        workers: number of threads.

    Attributes:
        calls: the number of gRPC calls that were received.
    """

    def __init__(self, workers: int) -> None:
        self._queue: list[tuple[float, int, Job[Any]]] = []
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._stopped = False
        self._turn = asyncio.Lock()
        self.calls = self._seen_calls = 0
        self._next_pause = 0.0
        for number in range(workers):
            name = f"dssm-serve-{number}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit(self, job: Job[Any]) -> None:
        """Queues a job."""
        with self._condition:
            if self._stopped:
                job.future.cancel()
                return
            heapq.heappush(self._queue, (job.computed, next(self._numbers), job))
            self._condition.notify()

    async def run(self, job: Job[_T]) -> _T:
        """Queues a job and waits for its result; if the caller is cancelled, the job ends soon."""
        self.submit(job)
        return await asyncio.wrap_future(job.future)

    async def run_here(self, job: Job[_T]) -> _T:
        """Computes the first block in the event loop, and the rest, if any, in a worker.

        For quick work: passing it to a thread and back takes longer than a millisecond when both
        threads are busy, because only one of them can run Python at a time. Jobs are computed one
        after the other.
        """
        async with self._turn:
            await self._receive()
            self._step(job)
        return await asyncio.wrap_future(job.future)

    async def _receive(self) -> None:
        """Lets the event loop receive requests before the next one is computed.

        gRPC passes on one call per iteration of the loop, and only after another thread has run. So
        under load, calls would wait in gRPC, where they cannot be refused. Pauses of a few
        milliseconds receive them.
        """
        await asyncio.sleep(0)
        if perf_counter() < self._next_pause:
            return
        for _ in range(_MAX_PAUSES):
            if self.calls == self._seen_calls:
                break
            self._seen_calls = self.calls
            await asyncio.sleep(_PAUSE_SECONDS)
        self._next_pause = perf_counter() + _WORK_SECONDS

    def stop(self) -> None:
        """Cancels all jobs. The threads end after their current blocks."""
        with self._condition:
            self._stopped = True
            for *_, job in self._queue:
                job.future.cancel()
            self._queue.clear()
            self._condition.notify_all()

    def _work(self) -> None:
        while True:
            with self._condition:
                while not self._queue:
                    if self._stopped:
                        return
                    self._condition.wait()
                *_, job = heapq.heappop(self._queue)
            self._step(job)
            del job  # frees its texts while the worker waits

    def _step(self, job: Job[Any]) -> None:
        if job.future.cancelled():
            job.blocks.close()
            return
        started = perf_counter()
        job.started = job.started or started
        result, error, is_finished = None, None, True
        try:
            next(job.blocks)
            is_finished = False
        except StopIteration as end:
            result = end.value
        except Exception as raised:
            # Its frames keep the parsed request in memory until the event loop reads the error.
            error = raised.with_traceback(None)
        job.computed += perf_counter() - started
        job.steps += 1
        if not is_finished:
            if job.steps == 2:
                job.on_long()
            self.submit(job)
        elif job.future.set_running_or_notify_cancel():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
