"""A Starlette application with the columnar REST API of TensorFlow Serving, health and metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from prometheus_client import generate_latest
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from dssm_tf.server.bodies import read_body
from dssm_tf.server.limits import INVALID, Limits, Refusal
from dssm_tf.server.openapi import openapi
from dssm_tf.server.origins import OriginCheck
from dssm_tf.server.service import Service
from serving.messages import encode_texts
from serving.predict_pb2 import PredictRequest


class _Inputs(BaseModel):
    # Validation stops at the first error: a million errors would fill the memory.
    queries: list[str] | None = Field(None, fail_fast=True)
    titles: list[str] | None = Field(None, fail_fast=True)


class _Body(BaseModel):
    inputs: _Inputs
    signature_name: str = ""


def rest_app(
    service: Service,
    hosts: list[str],
    page_routes: Sequence[Route],
    origins: Sequence[str] = (),
) -> Starlette:
    """Creates the application.

    Args:
        service: answers the requests.
        hosts: allowed values of the header Host; `*` for any. The check prevents web pages in a
            user's browser from reading a server on the loopback interface (DNS rebinding).
        page_routes: routes of the search and its page; empty for none.
        origins: sites whose pages may send requests; `*` for any.
    """

    def answer(model: str, raw: bytes) -> bytes:
        try:
            body = _Body.model_validate_json(raw)
        except ValidationError as error:
            first_error = error.errors()[0]
            field = ".".join(map(str, first_error["loc"])) or "the body"
            raise Refusal(INVALID, f"{field}: {first_error['msg']}.") from None
        predict_request = PredictRequest(
            model_spec={"name": model, "signature_name": body.signature_name},
            inputs={name: encode_texts(texts) for name, texts in body.inputs if texts is not None},
        )
        *_, values = service.answer(predict_request)
        # Row by row, so that other threads can run in between.
        rows = ", ".join(json.dumps(row.tolist()) for row in values)
        return f'{{"outputs": [{rows}]}}\n'.encode()

    async def predict(request: HttpRequest) -> Response:
        async def read_and_answer() -> bytes:
            body = await read_body(request, service.limits.message_bytes)
            return await service.compute(lambda: answer(request.path_params["model"], body))

        return Response(
            await service.handle("rest", read_and_answer), media_type="application/json"
        )

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

    async def describe(_: HttpRequest) -> Response:
        return JSONResponse(openapi(has_index=bool(page_routes)))

    async def refuse(_: HttpRequest, error: Any) -> Response:
        return JSONResponse({"error": str(error)}, error.http_status, {"connection": "close"})

    cors = [
        Middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"],
            allow_headers=["content-type"],
        )
    ] if origins else []  # fmt: skip
    return Starlette(
        routes=[
            Route("/v1/models/{model}:predict", predict, methods=["POST"]),
            Route("/v1/models/{model}", status),
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/openapi.json", describe),
            *page_routes,
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts),
            Middleware(OriginCheck, origins=origins),
            *cors,
        ],
        exception_handlers={Refusal: refuse},
    )


def limited_protocol(limits: Limits) -> type[H11Protocol]:
    """An HTTP/1.1 protocol that limits the number and lifetime of connections and unsent bytes.

    A connection is closed if there are too many, after its time limit, or if responses that clients
    have not read fill more memory than `limits` allows.
    """

    class LimitedProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.close()
            self._timers: list[asyncio.TimerHandle] = [
                self.loop.call_later(limits.seconds, self.shutdown),  # after the current response
                self.loop.call_later(2 * limits.seconds, transport.abort),
            ]

        def on_response_complete(self) -> None:
            super().on_response_complete()
            unsent = sum(
                connection.transport.get_write_buffer_size() for connection in self.connections
            )
            if unsent > limits.in_flight * limits.message_bytes:
                self.loop.call_soon(self.transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in self._timers:
                timer.cancel()
            super().connection_lost(exc)

    return LimitedProtocol
