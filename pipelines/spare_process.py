"""A second process that writes shards beside a local run, which itself keeps one core busy.

Beam's own worker processes pass every element through gRPC, which costs more than they save; a
shard is one large parcel. What is written does not depend on which process writes it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pipelines
from dssm_tf.data.record_encoder import RecordEncoder
from dssm_tf.text.vocabulary import Vocabulary
from pipelines.blocks import unpack_all
from pipelines.progress import Progress
from pipelines.records import WrittenShard, write_shard

# A process takes two seconds of a core to start.
WORTH_BYTES = 4 << 20


class ShardJob(NamedTuple):
    """A shard to write.

    Args:
        split: the part it belongs to.
        blocks: packed records.
        vocabulary: hashes them.
        directory: where workers write.
        progress: where written records are counted.
    """

    split: str
    blocks: list[bytes]
    vocabulary: Vocabulary
    directory: str
    progress: Progress

    def write(self, encoder: RecordEncoder) -> WrittenShard:
        """Writes the shard in this process."""
        records = [record for block in unpack_all(self.blocks) for record in block]
        return write_shard(self.split, records, encoder, self.directory, self.progress)


class SpareProcess:
    """A child process that writes one shard at a time; it ends when this process does."""

    def __init__(self) -> None:
        root = Path(pipelines.__file__).resolve().parent.parent
        code = (
            f"import sys; sys.path.insert(0, {str(root)!r}); "
            "from pipelines.spare_process import main; main()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._thread = ThreadPoolExecutor(1)
        self._running: Future[WrittenShard] | None = None

    def offer(self, job: ShardJob) -> Future[WrittenShard] | None:
        """The shard in the making, or None while the process is at another one."""
        if self._running is not None and not self._running.done():
            return None
        self._running = self._thread.submit(self._ask, job)
        return self._running

    def _ask(self, job: ShardJob) -> WrittenShard:
        sent, received = self._process.stdin, self._process.stdout
        if sent is None or received is None:
            raise RuntimeError("the process that writes shards has no pipes")
        pickle.dump(job, sent, pickle.HIGHEST_PROTOCOL)
        sent.flush()
        answer: WrittenShard | Exception = pickle.load(received)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Ends the process, after the shard it is at."""
        self._thread.shutdown(wait=True)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


_current: SpareProcess | None = None


def current() -> SpareProcess | None:
    """The spare process of this run; None on other workers, and where there is none."""
    return _current


@contextmanager
def spare_process(wanted: bool) -> Iterator[None]:
    """Keeps a spare process for the time of a local run, where it pays."""
    global _current
    if not wanted or (os.cpu_count() or 1) < 2:
        yield
        return
    spare = _current = SpareProcess()
    try:
        yield
    finally:
        _current = None
        spare.close()


def main() -> None:
    """Writes shards for the parent process until it closes the pipe, or dies."""
    answers: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up among the answers
    encoders: dict[str, RecordEncoder] = {}
    from pipelines.runners import relaxed_garbage_collection

    with relaxed_garbage_collection():
        while True:
            try:
                job: ShardJob = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                key = job.vocabulary.fingerprint
                encoder = encoders.setdefault(key, RecordEncoder(job.vocabulary))
                answer: WrittenShard | Exception = job.write(encoder)
            except Exception as error:
                answer = error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
