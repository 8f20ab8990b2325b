"""What the server answers, whatever protocol asks: models by name, within the limits."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import did_you_mean
from dssm_tf.server.limits import BUSY, FAILED, INVALID, LATE, NOT_FOUND, Budget, Limits, Refusal
from dssm_tf.server.metrics import Metrics
from dssm_tf.server.versions import Model, Ranker, Version

_LOG = logging.getLogger("dssm_tf.server")
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
    version: Version
    signature: str
    output: str
    values: NDArray[np.float32]


class Signature(NamedTuple):
    """What a model answers: the names of its inputs and its output, and how it is computed."""

    inputs: tuple[str, ...]
    output: str
    call: Callable[..., NDArray[np.float32]]


def _scores(ranker: Ranker, queries: list[str], titles: list[str]) -> NDArray[np.float32]:
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


_SCORE = Signature(("queries", "titles"), "scores", _scores)
SIGNATURES: Mapping[str, Signature] = {
    "score": _SCORE,
    "serving_default": _SCORE,
    **{
        f"encode_{side}{'_with_prior' * prior}": Signature(
            (texts,),
            "embeddings",
            lambda ranker, given, call=f"encode_{texts}", prior=prior: getattr(ranker, call)(
                given, prior
            ),
        )
        for side, texts in (("query", "queries"), ("title", "titles"))
        for prior in (False, True)
    },
}


class Service:
    """The models of a server and the threads that compute. Its methods run on one event loop.

    Args:
        models: by name.
        limits: see `Limits`.
        metrics: where requests are counted, refused ones too.

    Attributes:
        pending: what is being received or sent.
    """

    def __init__(self, models: Mapping[str, Model], limits: Limits, metrics: Metrics) -> None:
        self.models, self.limits, self.metrics = models, limits, metrics
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "dssm-serve")
        self.pending = Budget(limits.pending_bytes)
        self._in_flight = 0

    async def handle(self, api: str, work: Coroutine[Any, Any, _T]) -> _T:
        """Counts a request and gives it its seconds; whatever goes wrong is a `Refusal`."""
        with self.metrics.request(api):
            try:
                return await asyncio.wait_for(work, self.limits.seconds)
            except asyncio.TimeoutError:  # another class before Python 3.11
                told = f"not answered within {self.limits.seconds:g} s."
                raise Refusal(LATE, told) from None
            except Refusal:
                raise
            except Exception as error:
                # Not the error's own text, in which a query may stand.
                _LOG.error("%s: a request failed: %s", api, type(error).__name__)
                _LOG.debug("", exc_info=error)
                told = f"the model failed ({type(error).__name__})."
                raise Refusal(FAILED, told) from None

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

    def model(self, name: str) -> Model:
        """A model by its name; raises Refusal if there is none."""
        if name not in self.models:
            raise Refusal(
                NOT_FOUND,
                f"no model {name!r:.100} is served; there is {', '.join(sorted(self.models))}."
                f"{did_you_mean(name[:100], self.models)}",
            )
        return self.models[name]

    def close(self) -> None:
        """Takes no more work; what waits is given up."""
        self._pool.shutdown(wait=False, cancel_futures=True)

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
            known = ", ".join(SIGNATURES)
            raise Refusal(
                INVALID,
                f"signature_name: {name!r:.100}; expected one of {known}."
                f"{did_you_mean(name[:100], SIGNATURES)}",
            )
        if set(request.inputs) != set(signature.inputs):
            expected = " and ".join(signature.inputs)
            raise Refusal(INVALID, f"inputs: expected {expected} for signature {name}.")
        inputs = [request.inputs[one] for one in signature.inputs]
        self._check(dict(zip(signature.inputs, inputs, strict=True)))
        texts = [[text.decode("utf-8", "replace") for text in one] for one in inputs]
        # This version answers, whatever takes over meanwhile.
        values = signature.call(version.ranker, *texts)
        return Answer(request.model, version, name, signature.output, values)

    def _done(self) -> None:
        self._in_flight -= 1

    def _check(self, inputs: Mapping[str, Sequence[bytes]]) -> None:
        """Raises Refusal where texts are too many or too long."""
        total = 0
        for name, texts in inputs.items():
            if len(texts) > self.limits.texts:
                raise Refusal(
                    INVALID, f"{name} holds {len(texts):,} texts, more than {self.limits.texts:,}."
                )
            for index, text in enumerate(texts):
                if len(text) > self.limits.text_bytes:
                    raise Refusal(
                        INVALID,
                        f"{name}[{index}] has {len(text):,} bytes, more than "
                        f"{self.limits.text_bytes:,}.",
                    )
                total += len(text)
        if total > self.limits.total_bytes:
            raise Refusal(
                INVALID,
                f"the texts have {total:,} bytes, more than {self.limits.total_bytes:,} together.",
            )
