"""TensorFlow Serving's REST calls by columns, health and metrics, as a Starlette application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from dssm_tf.server.limits import GONE, INVALID, TOO_LARGE, Limits, Refusal
from dssm_tf.server.service import Answer, Request, Service

_FULL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class _Inputs(BaseModel):  # the first error is enough: a million would fill the memory
    queries: list[str] = Field([], fail_fast=True)
    titles: list[str] = Field([], fail_fast=True)


class _Body(BaseModel):
    inputs: _Inputs
    signature_name: str = ""


def rest_app(service: Service, hosts: Sequence[str], page: Sequence[Route] = ()) -> Starlette:
    """The application.

    Args:
        service: answers.
        hosts: names that a request may give in its header Host; `*` for any. Without this check
            a page that a user's browser has open could ask a server on loopback.
        page: further routes.
    """

    async def predict(request: HttpRequest) -> Response:
        async def work() -> bytes:
            try:
                raw = await _body(request, service)
            except ClientDisconnect:
                raise Refusal(GONE, "the client went.") from None
            read = partial(_read, request.path_params["model"], raw)
            return await service.compute(lambda: _write(service.answer(read())))

        return Response(await service.handle("rest", work()), media_type="application/json")

    async def status(request: HttpRequest) -> Response:
        states = service.model(request.path_params["model"]).states()
        told = [
            {
                "version": str(number),
                "state": state.name,
                "status": {
                    "error_code": "UNKNOWN" if state.error else "OK",
                    "error_message": state.error,
                },
            }
            for number, state in states.items()
        ]
        return JSONResponse({"model_version_status": told})

    async def health(_: HttpRequest) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_: HttpRequest) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/v1/models/{model}:predict", predict, methods=["POST"]),
            Route("/v1/models/{model}", status),
            Route("/health", health),
            Route("/metrics", metrics),
            *page,
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={Refusal: _refused, HTTPException: _not_found},
    )


async def _refused(_: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101
    return JSONResponse({"error": str(error)}, error.http, {"connection": "close"})


async def _not_found(request: HttpRequest, error: Exception) -> Response:
    told = f"no {request.method} {request.url.path[:100]}; there is /v1/models/NAME:predict."
    return JSONResponse({"error": told}, getattr(error, "status_code", 404))


async def _body(request: HttpRequest, service: Service) -> bytes:
    """A request's body; one that is too long is read to its end, so that its sender listens."""
    limit, size, body = service.limits.message_bytes, 0, bytearray()
    with service.pending.holding() as hold:
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                hold(len(part))
                body += part
        if size > limit:
            raise Refusal(TOO_LARGE, f"the body has {size:,} bytes, more than {limit:,}.")
        return bytes(body)


def _read(model: str, raw: bytes) -> Request:
    try:
        body = _Body.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise Refusal(INVALID, f"{where}: {first['msg']}.") from None
    inputs = {
        name: [text.encode() for text in getattr(body.inputs, name)]
        for name in body.inputs.model_fields_set
    }
    return Request(model, body.signature_name, inputs)


def _write(answer: Answer) -> bytes:
    # Row by row, so that other threads get their turn.
    rows = ", ".join(json.dumps(row.tolist()) for row in answer.values)
    return f'{{"outputs": [{rows}]}}\n'.encode()


def mortal(limits: Limits) -> type[H11Protocol]:
    """Connections that end: each brings a request, and takes its answer, within its time."""

    class Mortal(H11Protocol):
        _end: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_FULL)
                transport.close()
            self._rearm()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._rearm()
            unsent = (one.transport.get_write_buffer_size() for one in self.connections)
            if sum(unsent) > limits.pending_bytes:  # by others, who do not read their answers
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._end is not None:
                self._end.cancel()
            super().connection_lost(exc)

        def _rearm(self) -> None:
            if self._end is not None:
                self._end.cancel()
            self._end = self.loop.call_later(2 * limits.seconds, self.transport.abort)

    return Mortal
