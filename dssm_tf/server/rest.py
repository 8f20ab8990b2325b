"""A Starlette application with the REST API of TensorFlow Serving, health and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from dssm_tf.server.admission import RETRY_SECONDS
from dssm_tf.server.limits import BUSY, INVALID, NOT_FOUND, WRONG_METHOD, Refusal
from dssm_tf.server.metadata import signatures, statuses
from dssm_tf.server.models import ServedModel, Snapshot
from dssm_tf.server.openapi import openapi
from dssm_tf.server.origins import OriginCheck
from dssm_tf.server.rest_predict import answer
from dssm_tf.server.service import Service

_MODEL = "/v1/models/{model}"
_VERSIONS = (_MODEL, _MODEL + "/versions/{version}", _MODEL + "/labels/{label}")
_JSON = "application/json"


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

    async def predict(request: Request) -> Response:
        if request.method != "POST":
            raise Refusal(WRONG_METHOD, f"{request.method}: :predict takes POST only.")
        snapshot = service.snapshot

        async def read_and_answer() -> bytes:
            async with service.bodies.read(request) as body:
                return await service.compute(
                    "rest",
                    len(body),
                    lambda: answer(
                        model_of(request, snapshot), body, service.limits, service.answers
                    ),
                )

        return Response(await service.handle("rest", read_and_answer), media_type=_JSON)

    async def other_call(request: Request) -> Response:
        raise Refusal(
            INVALID, f"the signatures are for :predict, not :{request.path_params['call']:.60}."
        )

    async def status(request: Request) -> Response:
        snapshot = service.snapshot
        name, parameters = request.path_params["model"], request.path_params
        version = model_of(request, snapshot).version if len(parameters) > 1 else None
        return JSONResponse(_plain(statuses(snapshot, name, version)))

    async def metadata(request: Request) -> Response:
        model = model_of(request, service.snapshot)
        message = await service.handle(
            "metadata", lambda: service.compute("metadata", 0, lambda: signatures(model))
        )
        return JSONResponse({
            "model_spec": {
                "name": model.name, "signature_name": "", "version": str(model.version)
            },
            "metadata": {"signature_def": _plain(message)},
        })  # fmt: skip

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def describe(_: Request) -> Response:
        return JSONResponse(openapi(has_index=bool(page_routes)))

    async def refuse(_: Request, error: Any) -> Response:
        headers = {}
        if error.kind == BUSY:
            headers["retry-after"] = str(RETRY_SECONDS)
        if error.kind == WRONG_METHOD:
            headers["allow"] = "POST"
        if error.closes:
            headers["connection"] = "close"
        return JSONResponse({"error": str(error)}, error.http_status, headers)

    async def http_error(request: Request, error: Any) -> Response:
        message = f"{request.method} {request.url.path:.200}: {error.detail}."
        return JSONResponse({"error": message}, error.status_code, error.headers)

    cors = [
        Middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["GET", "POST"],
            allow_headers=["content-type"],
        )
    ] if origins else []  # fmt: skip
    methods = ["GET", "POST", "PUT", "DELETE", "PATCH"]
    return Starlette(
        routes=[
            *(Route(path + ":predict", predict, methods=methods) for path in _VERSIONS),
            Route(_MODEL + "/metadata", metadata),
            *(Route(path + "/metadata", metadata) for path in _VERSIONS[1:]),
            *(Route(path + ":{call}", other_call, methods=methods) for path in _VERSIONS),
            *(Route(path, status) for path in _VERSIONS),
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
        exception_handlers={Refusal: refuse, HTTPException: http_error},
    )


def model_of(request: Request, snapshot: Snapshot) -> ServedModel:
    """The model, and version or label, of a path; raises Refusal if it is not served."""
    parameters = request.path_params
    number = parameters.get("version", "0")
    if not number.isdecimal() or len(number) > 19:
        raise Refusal(NOT_FOUND, f"version {number:.60} is not a number.")
    if "version" in parameters and not int(number):
        raise Refusal(NOT_FOUND, "version 0 is not served.")
    return snapshot.find(parameters["model"], int(number), parameters.get("label", ""))


def _plain(message: Any) -> dict[str, Any]:
    """A message as plain data, with the field names of its .proto file."""
    plain: dict[str, Any] = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return plain
