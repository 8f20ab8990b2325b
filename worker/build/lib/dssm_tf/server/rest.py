"""TensorFlow Serving's REST calls by columns, health and metrics, as a Starlette application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from prometheus_client import generate_latest
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
            raw = await _body(request, service)
            read = partial(_read, request.path_params["model"], raw)
            return await service.compute(lambda: _write(service.answer(read())))

        return Response(await service.handle("rest", work()), media_type="application/json")

    async def status(request: HttpRequest) -> Response:
        told = []
        for number, state in service.model(request.path_params["model"]).states().items():
            code = "UNKNOWN" if state.error else "OK"
            error = {"error_code": code, "error_message": state.error}
            told.append({"version": str(number), "state": state.name, "status": error})
        return JSONResponse({"model_version_status": told})

    async def health(_: HttpRequest) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_: HttpRequest) -> Response:
        return Response(generate_latest(service.registry), media_type="text/plain; version=0.0.4")

    async def refused(request: HttpRequest, error: Exception) -> Response:
        if isinstance(error, Refusal):
            return JSONResponse({"error": str(error)}, error.http, {"connection": "close"})
        told = f"no {request.method} {request.url.path[:100]}; there is /v1/models/NAME:predict."
        return JSONResponse({"error": told}, getattr(error, "status_code", 404))

    return Starlette(
        routes=[
            Route("/v1/models/{model}:predict", predict, methods=["POST"]),
            Route("/v1/models/{model}", status),
            Route("/health", health),
            Route("/metrics", metrics),
            *page,
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={Refusal: refused, HTTPException: refused},
    )


async def _body(request: HttpRequest, service: Service) -> bytes:
    """A request's body; one that is too long is read to its end, so that its sender listens."""
    limit, size, body = service.limits.message_bytes, 0, bytearray()
    with service.pending.holding() as hold:
        try:
            async for part in request.stream():
                size += len(part)
                if size <= limit:
                    hold(len(part))
                    body += part
        except ClientDisconnect:
            raise Refusal(GONE, "the client went.") from None
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
    given = body.inputs.model_dump(include=body.inputs.model_fields_set)
    inputs = {name: [text.encode() for text in texts] for name, texts in given.items()}
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
            self._rearm(2 * limits.seconds)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            unsent = (one.transport.get_write_buffer_size() for one in self.connections)
            full = sum(unsent) > limits.pending_bytes  # by others, who do not read their answers
            self._rearm(0 if full else 2 * limits.seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._rearm(None)
            super().connection_lost(exc)

        def _rearm(self, seconds: float | None) -> None:
            if self._end is not None:
                self._end.cancel()
            if seconds is not None:
                self._end = self.loop.call_later(seconds, self.transport.abort)

    return Mortal
