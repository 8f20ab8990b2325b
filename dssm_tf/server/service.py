"""What the server answers, within its limits, whichever protocol asks; and what it counts."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Histogram

from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.server.limits import BUSY, FAILED, INVALID, LATE, NOT_FOUND, Budget, Limits, Refusal
from dssm_tf.server.versions import Model

_LOG = logging.getLogger("dssm_tf.server")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_T = TypeVar("_T")


class Request(NamedTuple):
    """What is asked of a model.

    Args:
        model: its name.
        signature: one of `SIGNATURES`; empty for `serving_default`.
        inputs: texts by the names of the inputs, UTF-8.
        version: its number; None for the one that answers.
    """

    model: str
    signature: str
    inputs: Mapping[str, list[bytes]]
    version: int | None = None


class Answer(NamedTuple):
    """What a signature of a version made of texts."""

    model: str
    version: int
    signature: str
    output: str
    values: NDArray[np.float32]


class Signature(NamedTuple):
    """What a model answers: the names of its inputs and its output, and how it is computed."""

    inputs: tuple[str, ...]
    output: str
    call: Callable[..., NDArray[np.float32]]


def _scores(ranker: VectorRanker, queries: list[str], titles: list[str]) -> NDArray[np.float32]:
    """One query for all titles, or one for each; a query that is repeated is encoded once."""
    if len(queries) not in (1, len(titles)):
        raise Refusal(
            INVALID,
            f"inputs hold {len(queries)} queries and {len(titles)} titles; expected the same "
            "number of both, or one query for all titles.",
        )
    rows = {query: row for row, query in enumerate(dict.fromkeys(queries))}
    vectors = ranker.encode_queries(list(rows), prior=True)[[rows[query] for query in queries]]
    scores: NDArray[np.float32] = (vectors * ranker.encode_titles(titles, prior=True)).sum(axis=1)
    return scores


def _encoded(side: str, prior: bool) -> Callable[..., NDArray[np.float32]]:
    return lambda ranker, texts: getattr(ranker, f"encode_{side}")(texts, prior=prior)


SIGNATURES: Mapping[str, Signature] = {
    "score": Signature(("queries", "titles"), "scores", _scores),
    "serving_default": Signature(("queries", "titles"), "scores", _scores),
    "encode_query": Signature(("queries",), "embeddings", _encoded("queries", False)),
    "encode_title": Signature(("titles",), "embeddings", _encoded("titles", False)),
    "encode_query_with_prior": Signature(("queries",), "embeddings", _encoded("queries", True)),
    "encode_title_with_prior": Signature(("titles",), "embeddings", _encoded("titles", True)),
}


class Service:
    """The models of a server and the threads that compute. Its methods run on one event loop.

    Args:
        models: of different names.
        limits: see `Limits`.

    Attributes:
        pending: what is being received or sent.
        registry: Prometheus's, where requests are counted, refused ones too.
    """

    def __init__(self, models: Sequence[Model], limits: Limits) -> None:
        self.models, self.limits = {one.name: one for one in models}, limits
        self.pending = Budget(limits.pending_bytes)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "dssm-serve")
        self._free = threading.BoundedSemaphore(limits.in_flight)
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "dssm_requests", "Requests, answered or refused", ["api", "status"], registry=registry
        )
        self._seconds = Histogram(
            "dssm_request_seconds", "From the first byte of a request to its answer", ["api"],
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip

    async def handle(self, api: str, work: Coroutine[Any, Any, _T]) -> _T:
        """Counts a request and gives it its seconds; whatever goes wrong is a `Refusal`."""
        started, status = perf_counter(), "CANCELLED"
        try:
            answer = await asyncio.wait_for(work, self.limits.seconds)
            status = "OK"
            return answer
        except Exception as error:
            if isinstance(error, asyncio.TimeoutError):  # another class before Python 3.11
                error = Refusal(LATE, f"not answered within {self.limits.seconds:g} s.")
            if not isinstance(error, Refusal):
                # Not the error's own text, in which a query may stand.
                _LOG.error("%s: a request failed: %s", api, type(error).__name__)
                _LOG.debug("", exc_info=error)
                error = Refusal(FAILED, f"the model failed ({type(error).__name__}).")
            status = error.status
            raise error from None
        finally:
            self._requests.labels(api, status).inc()
            self._seconds.labels(api).observe(perf_counter() - started)

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Lets a worker do something; raises Refusal if too much is in flight."""
        if not self._free.acquire(blocking=False):
            raise Refusal(BUSY, f"{self.limits.in_flight} requests are in flight; try again later.")
        future = self._pool.submit(work)
        # What nobody waits for any longer counts until it ends.
        future.add_done_callback(lambda _: self._free.release())
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Takes no more work; what waits is given up."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def model(self, name: str) -> Model:
        """A model by its name; raises Refusal if there is none."""
        if name not in self.models:
            raise Refusal(
                NOT_FOUND,
                f"no model {name!r:.100} is served; choose from {', '.join(sorted(self.models))}.",
            )
        return self.models[name]

    def answer(self, request: Request) -> Answer:
        """Runs a signature on texts, in a worker.

        Raises:
            Refusal: there is no such model or signature, or its inputs are not these texts.
        """
        name = request.signature or "serving_default"
        version = self.model(request.model).current
        if version is None or request.version not in (None, version.number):
            raise Refusal(NOT_FOUND, f"version {request.version} of {request.model} is not served.")
        if (signature := SIGNATURES.get(name)) is None:
            raise Refusal(
                INVALID,
                f"signature_name: {name!r:.100}; expected one of {', '.join(SIGNATURES)}.",
            )
        if set(request.inputs) != set(signature.inputs):
            expected = " and ".join(signature.inputs)
            raise Refusal(INVALID, f"inputs: expected {expected} for signature {name}.")
        texts = [self._texts(one, request.inputs[one]) for one in signature.inputs]
        # This version answers, whatever takes over meanwhile.
        values = signature.call(version.ranker, *texts)
        return Answer(request.model, version.number, name, signature.output, values)

    def _texts(self, name: str, texts: Sequence[bytes]) -> list[str]:
        """The texts of an input; raises Refusal if they are too many or too long."""
        longest = max(map(len, texts), default=0)
        for size, limit, unit in (
            (len(texts), self.limits.texts, "texts"),
            (longest, self.limits.text_bytes, "bytes in one text"),
        ):
            if size > limit:
                raise Refusal(INVALID, f"{name}: {size:,} {unit}, more than {limit:,}.")
        return [text.decode("utf-8", "replace") for text in texts]
