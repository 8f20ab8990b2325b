"""What the server answers, within its limits, whichever protocol asks; and what it counts."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
            f"inputs hold {len(queries)} queries and {len(titles)} titles; expected as many of "
            "both, or one query for all titles.",
        )
    rows = {query: row for row, query in enumerate(dict.fromkeys(queries))}
    vectors = ranker.encode_queries(list(rows), prior=True)[[rows[query] for query in queries]]
    scores: NDArray[np.float32] = (vectors * ranker.encode_titles(titles, prior=True)).sum(axis=1)
    return scores


SIGNATURES: Mapping[str, Signature] = {
    "score": Signature(("queries", "titles"), "scores", _scores),
    "serving_default": Signature(("queries", "titles"), "scores", _scores),
    "encode_query": Signature(("queries",), "embeddings", lambda r, q: r.encode_queries(q)),
    "encode_title": Signature(("titles",), "embeddings", lambda r, t: r.encode_titles(t)),
    "encode_query_with_prior": Signature(
        ("queries",), "embeddings", lambda r, q: r.encode_queries(q, prior=True)
    ),
    "encode_title_with_prior": Signature(
        ("titles",), "embeddings", lambda r, t: r.encode_titles(t, prior=True)
    ),
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
        self._in_flight = 0
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
            refusal = self._refusal(api, error)
            status = refusal.status
            raise refusal from None
        finally:
            self._requests.labels(api, status).inc()
            self._seconds.labels(api).observe(perf_counter() - started)

    def _refusal(self, api: str, error: Exception) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if isinstance(error, asyncio.TimeoutError):  # another class before Python 3.11
            return Refusal(LATE, f"not answered within {self.limits.seconds:g} s.")
        # Not the error's own text, in which a query may stand.
        _LOG.error("%s: a request failed: %s", api, type(error).__name__)
        _LOG.debug("", exc_info=error)
        return Refusal(FAILED, f"the model failed ({type(error).__name__}).")

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Lets a worker do something; raises Refusal if too much is in flight."""
        if self._in_flight >= self.limits.in_flight:
            raise Refusal(BUSY, f"{self.limits.in_flight} requests are in flight; ask again later.")
        self._in_flight += 1
        loop = asyncio.get_running_loop()

        def done(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._done)

        future = self._pool.submit(work)
        # What nobody waits for any longer counts until it ends.
        future.add_done_callback(done)
        return await asyncio.wrap_future(future)

    def _done(self) -> None:
        self._in_flight -= 1

    def close(self) -> None:
        """Takes no more work; what waits is given up."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def model(self, name: str) -> Model:
        """A model by its name; raises Refusal if there is none."""
        if name not in self.models:
            raise Refusal(
                NOT_FOUND,
                f"no model {name!r:.100} is served; there is {', '.join(sorted(self.models))}.",
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
        self._check(request.inputs)
        texts = [
            [text.decode("utf-8", "replace") for text in request.inputs[one]]
            for one in signature.inputs
        ]
        # This version answers, whatever takes over meanwhile.
        values = signature.call(version.ranker, *texts)
        return Answer(request.model, version.number, name, signature.output, values)

    def _check(self, inputs: Mapping[str, Sequence[bytes]]) -> None:
        """Raises Refusal where texts are too many or too long."""
        total = sum(len(text) for texts in inputs.values() for text in texts)
        found = [("the texts together", total, "total_bytes")]
        for name, texts in inputs.items():
            found.append((name, len(texts), "texts"))
            found += [(f"{name}[{at}]", len(one), "text_bytes") for at, one in enumerate(texts)]
        for what, size, limit in found:
            if size > (most := getattr(self.limits, limit)):
                unit = "texts" if limit == "texts" else "bytes"
                raise Refusal(INVALID, f"{what}: {size:,} {unit}, more than {most:,}.")
