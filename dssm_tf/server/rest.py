"""TensorFlow Serving's REST calls by columns, health and metrics, as a Starlette application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from prometheus_client import generate_latest
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from dssm_tf.server.limits import GONE, INVALID, TOO_LARGE, Limits, Refusal
from dssm_tf.server.service import Service
from serving.messages import encode_texts
from serving.predict_pb2 import PredictRequest


class _Inputs(BaseModel):  # the first error is enough: a million would fill the memory
    queries: list[str] | None = Field(None, fail_fast=True)
    titles: list[str] | None = Field(None, fail_fast=True)


class _Body(BaseModel):
    inputs: _Inputs
    signature_name: str = ""


def rest_app(service: Service, hosts: list[str], page: Sequence[Route]) -> Starlette:
    """The application.

    Args:
        service: answers.
        hosts: names that a request may give in its header Host; `*` for any. Without this check
            a page that a user's browser has open could ask a server on loopback.
        page: further routes.
    """

    def answer(model: str, raw: bytes) -> bytes:
        try:
            body = _Body.model_validate_json(raw)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise Refusal(INVALID, f"{where}: {first['msg']}.") from None
        asked = PredictRequest(
            model_spec={"name": model, "signature_name": body.signature_name},
            inputs={name: encode_texts(texts) for name, texts in body.inputs if texts is not None},
        )
        *_, values = service.answer(asked)
        # Row by row, so that other threads get their turn.
        rows = ", ".join(json.dumps(row.tolist()) for row in values)
        return f'{{"outputs": [{rows}]}}\n'.encode()

    async def predict(request: HttpRequest) -> Response:
        async def work() -> bytes:
            body, most = bytearray(), service.limits.message_bytes
            try:
                # One that is too long is read to its end, so that its sender listens.
                async for part in request.stream():
                    if len(body) <= most:
                        body += part
            except ClientDisconnect:
                raise Refusal(GONE, "the client went.") from None
            if len(body) > most:
                raise Refusal(TOO_LARGE, f"the body has more than {most:,} bytes.")
            return await service.compute(lambda: answer(request.path_params["model"], bytes(body)))

        return Response(await service.handle("rest", work), media_type="application/json")

    async def status(request: HttpRequest) -> Response:
        version = {
            "version": str(service.model(request.path_params["model"]).version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return JSONResponse({"model_version_status": [version]})

    async def health(_: HttpRequest) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_: HttpRequest) -> Response:
        return Response(generate_latest(service.registry), media_type="text/plain; version=0.0.4")

    async def refused(_: HttpRequest, error: Any) -> Response:
        return JSONResponse({"error": str(error)}, error.http, {"connection": "close"})

    return Starlette(
        routes=[
            Route("/v1/models/{model}:predict", predict, methods=["POST"]),
            Route("/v1/models/{model}", status),
            Route("/health", health),
            Route("/metrics", metrics),
            *page,
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)],
        exception_handlers={Refusal: refused},
    )


def mortal(limits: Limits) -> type[H11Protocol]:
    """Connections that end: each in time, one too many at once, and those who read no answer."""

    class Mortal(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.close()
            self._ends: list[asyncio.TimerHandle] = [
                self.loop.call_later(limits.seconds, self.shutdown),  # once it has its answer
                self.loop.call_later(2 * limits.seconds, transport.abort),
            ]

        def on_response_complete(self) -> None:
            super().on_response_complete()
            unsent = sum(one.transport.get_write_buffer_size() for one in self.connections)
            if unsent > limits.in_flight * limits.message_bytes:
                self.loop.call_soon(self.transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            for end in self._ends:
                end.cancel()
            super().connection_lost(exc)

    return Mortal
