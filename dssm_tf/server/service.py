"""Answers the requests of all protocols within the limits, and counts them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TypeVar

from prometheus_client import CollectorRegistry, Histogram

from dssm_tf.export.signatures import INPUTS
from dssm_tf.runtime.trained_ranker import TrainedRanker, Vectors
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.server.limits import BUSY, DEADLINE, FAILED, INVALID, NOT_FOUND, Limits, Refusal
from dssm_tf.server.models import Model
from serving import messages
from serving.predict_pb2 import ModelSpec, PredictRequest

_LOG = logging.getLogger("dssm_tf.server")
_T = TypeVar("_T")

_BUSY = "as many requests as --in-flight allows are in flight; try again later."

_MAX_TEXT_BYTES = 1 << 16  # longer texts are truncated; models read only the first words


def compute(ranker: TrainedRanker, texts: Mapping[str, list[str]]) -> tuple[str, Vectors]:
    """Computes a signature; returns the name of the output and its values.

    Args:
        ranker: the model.
        texts: texts by the names in `INPUTS`; with titles, one query for all or one per title.

    Raises:
        Refusal: the numbers of queries and titles differ, or the model has no vectors.
    """
    if len(texts) == 1:
        if not isinstance(ranker, VectorRanker):
            raise Refusal(
                INVALID,
                f"{ranker.name} is a maxsim model, which has no vector per text; use the signature "
                "score.",
            )
        ((name, batch),) = texts.items()
        return "embeddings", getattr(ranker, f"encode_{name}")(batch, prior=True)
    queries, titles = texts["queries"], texts["titles"]
    if len(queries) not in (1, len(titles)):
        raise Refusal(
            INVALID,
            f"inputs have {len(queries)} queries and {len(titles)} titles; expected the same "
            "number of both, or one query for all titles.",
        )
    if len(set(queries)) == 1:  # clients that batch repeat the query
        queries = queries[:1]
    return "scores", ranker.score_pairs(queries, titles)


class Service:
    """The models of a server and its worker threads. Call its methods from one event loop.

    Args:
        models: models with different names.
        limits: see `Limits`.

    Attributes:
        pool: the worker threads.
        registry: Prometheus metrics of all requests, including refused ones.
    """

    def __init__(self, models: Sequence[Model], limits: Limits) -> None:
        self.models, self.limits = {model.name: model for model in models}, limits
        self.pool = ThreadPoolExecutor(os.cpu_count() or 1, "dssm-serve")
        self._request_slots = defaultdict[str, asyncio.Semaphore](
            lambda: asyncio.Semaphore(limits.in_flight)
        )
        self._compute_slots = threading.BoundedSemaphore(limits.in_flight)
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "dssm_request_seconds", "From the first byte of a request to its answer or refusal",
            ["api", "status"], registry=self.registry,
        )  # fmt: skip

    async def handle(self, api: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Runs a request within the limits of its API, and counts it.

        Each API has its own limit, so health checks are answered while other APIs are busy.

        Raises:
            Refusal: the API is busy, the request took too long, or it failed.
        """
        started, status = perf_counter(), "CANCELLED"
        slots = self._request_slots[api]
        try:
            if slots.locked():
                raise Refusal(BUSY, _BUSY)
            async with slots:
                answer = await asyncio.wait_for(work(), self.limits.seconds)
            status = "OK"
            return answer
        except Exception as error:
            if isinstance(error, asyncio.TimeoutError):  # another class before Python 3.11
                error = Refusal(DEADLINE, f"not answered within {self.limits.seconds:g} s.")
            if not isinstance(error, Refusal):
                # The text of the error may contain a query, so it is not logged.
                _LOG.error("%s: a request failed: %s", api, type(error).__name__)
                error = Refusal(FAILED, f"the model failed ({type(error).__name__}).")
            status = error.grpc_status
            raise error from None
        finally:
            self._seconds.labels(api, status).observe(perf_counter() - started)

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Runs a function in a worker; raises Refusal if too many are running or waiting."""
        if not self._compute_slots.acquire(blocking=False):
            raise Refusal(BUSY, _BUSY)
        future = self.pool.submit(work)
        # Work whose request was canceled counts until it ends.
        future.add_done_callback(lambda _: self._compute_slots.release())
        return await asyncio.wrap_future(future)

    def model(self, name: str) -> Model:
        """The model with a name; raises Refusal if there is none."""
        if name not in self.models:
            raise Refusal(
                NOT_FOUND,
                f"no model {name!r:.100} is served; choose from {', '.join(sorted(self.models))}.",
            )
        return self.models[name]

    def answer(self, request: PredictRequest) -> tuple[ModelSpec, str, Vectors]:
        """Answers a Predict request; runs in a worker.

        Returns:
            The model, version and signature that answered, the name of the output, and its values.

        Raises:
            Refusal: the model or signature does not exist, or the inputs are wrong.
        """
        spec = request.model_spec
        model, version = self.model(spec.name), spec.version_label or spec.version.value
        if version not in (0, model.version):
            raise Refusal(NOT_FOUND, f"version {version} of {spec.name} is not served.")
        spec.version.value = model.version
        spec.signature_name = signature = spec.signature_name or "serving_default"
        if signature not in INPUTS:
            expected = ", ".join(INPUTS)
            raise Refusal(
                INVALID, f"signature_name: {signature!r:.100}; expected one of {expected}."
            )
        if set(request.inputs) != set(INPUTS[signature]):
            expected = " and ".join(INPUTS[signature])
            raise Refusal(INVALID, f"inputs: expected {expected} for this signature.")
        texts = {}
        for name in INPUTS[signature]:
            try:
                raw_texts = messages.decode_texts(request.inputs[name], self.limits.texts)
            except ValueError as error:
                raise Refusal(INVALID, f"{name}: {error}.") from None
            texts[name] = [text[:_MAX_TEXT_BYTES].decode("utf-8", "replace") for text in raw_texts]
        return spec, *compute(model.ranker, texts)
