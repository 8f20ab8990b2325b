"""What the server answers, within its limits, whichever protocol asks; and what it counts."""

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
from dssm_tf.runtime.vector_ranker import VectorRanker, Vectors
from dssm_tf.server.limits import BUSY, FAILED, INVALID, LATE, NOT_FOUND, Limits, Refusal
from dssm_tf.server.models import Model
from serving import messages
from serving.predict_pb2 import ModelSpec, PredictRequest

_LOG = logging.getLogger("dssm_tf.server")
_T = TypeVar("_T")

_BUSY = "as many requests as --in-flight allows are in flight; try again later."

_LONGEST = 1 << 16  # bytes of a text that are read; models read its first words alone


def compute(ranker: VectorRanker, texts: Mapping[str, list[str]]) -> tuple[str, Vectors]:
    """The output of a signature: the name and the values.

    Args:
        ranker: a model.
        texts: by the names in `INPUTS`; one query for all titles, or one for each.
    """
    if len(texts) == 1:
        ((name, given),) = texts.items()
        return "embeddings", getattr(ranker, f"encode_{name}")(given, prior=True)
    queries, titles = texts["queries"], texts["titles"]
    if len(queries) not in (1, len(titles)):
        raise Refusal(
            INVALID,
            f"inputs hold {len(queries)} queries and {len(titles)} titles; expected the same "
            "number of both, or one query for all titles.",
        )
    if len(set(queries)) == 1:  # as clients repeat it that batch
        queries = queries[:1]
    vectors = ranker.encode_queries(queries, prior=True) * ranker.encode_titles(titles, prior=True)
    return "scores", vectors.sum(axis=1)


class Service:
    """The models of a server and the threads that compute. Its methods run on one event loop.

    Args:
        models: of different names.
        limits: see `Limits`.

    Attributes:
        pool: the workers.
        registry: Prometheus's, where requests are counted, refused ones too.
    """

    def __init__(self, models: Sequence[Model], limits: Limits) -> None:
        self.models, self.limits = {one.name: one for one in models}, limits
        self.pool = ThreadPoolExecutor(os.cpu_count() or 1, "dssm-serve")
        self._places = defaultdict[str, asyncio.Semaphore](
            lambda: asyncio.Semaphore(limits.in_flight)
        )
        self._free = threading.BoundedSemaphore(limits.in_flight)
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "dssm_request_seconds", "From the first byte of a request to its answer or refusal",
            ["api", "status"], registry=self.registry,
        )  # fmt: skip

    async def handle(self, api: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Counts a request and gives it a place and its seconds; whatever fails is a `Refusal`.

        Each API has places of its own, so probes are answered whatever else is asked.
        """
        started, status = perf_counter(), "CANCELLED"
        places = self._places[api]
        try:
            if places.locked():
                raise Refusal(BUSY, _BUSY)
            async with places:
                answer = await asyncio.wait_for(work(), self.limits.seconds)
            status = "OK"
            return answer
        except Exception as error:
            if isinstance(error, asyncio.TimeoutError):  # another class before Python 3.11
                error = Refusal(LATE, f"not answered within {self.limits.seconds:g} s.")
            if not isinstance(error, Refusal):
                # Not the error's own text, in which a query may stand.
                _LOG.error("%s: a request failed: %s", api, type(error).__name__)
                error = Refusal(FAILED, f"the model failed ({type(error).__name__}).")
            status = error.status
            raise error from None
        finally:
            self._seconds.labels(api, status).observe(perf_counter() - started)

    async def compute(self, work: Callable[[], _T]) -> _T:
        """Lets a worker do something; raises Refusal if too much is in flight."""
        if not self._free.acquire(blocking=False):
            raise Refusal(BUSY, _BUSY)
        future = self.pool.submit(work)
        # What nobody waits for any longer counts until it ends.
        future.add_done_callback(lambda _: self._free.release())
        return await asyncio.wrap_future(future)

    def model(self, name: str) -> Model:
        """A model by its name; raises Refusal if there is none."""
        if name not in self.models:
            raise Refusal(
                NOT_FOUND,
                f"no model {name!r:.100} is served; choose from {', '.join(sorted(self.models))}.",
            )
        return self.models[name]

    def answer(self, request: PredictRequest) -> tuple[ModelSpec, str, Vectors]:
        """Runs a signature on texts, in a worker.

        Returns:
            What answered, the name of the output and its values.

        Raises:
            Refusal: there is no such model or signature, or its inputs are not these texts.
        """
        spec = request.model_spec
        model, asked = self.model(spec.name), spec.version_label or spec.version.value
        if asked not in (0, model.version):
            raise Refusal(NOT_FOUND, f"version {asked} of {spec.name} is not served.")
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
                found = messages.decode_texts(request.inputs[name], self.limits.texts)
            except ValueError as error:
                raise Refusal(INVALID, f"{name}: {error}.") from None
            texts[name] = [text[:_LONGEST].decode("utf-8", "replace") for text in found]
        return spec, *compute(model.ranker, texts)
