"""The routes of `/v1/search`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dssm_tf.retrieval.opening import AnyIndex
from dssm_tf.server.bodies import read_body
from dssm_tf.server.limits import WRONG_TYPE, Refusal
from dssm_tf.server.search_api import parse_json, parse_parameters, search
from dssm_tf.server.service import Service


def search_api_routes(index: AnyIndex, service: Service) -> list[Route]:
    """`GET` and `POST /v1/search`. Searches are subject to the limits of the service."""

    async def get(request: Request) -> Response:
        parameters = dict(request.query_params)
        return _json(
            await service.handle(
                "search",
                lambda: service.compute(
                    lambda: search(index, 1, parse_parameters(parameters)).model_dump_json()
                ),
            )
        )

    async def post(request: Request) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refusal(
                WRONG_TYPE, f"content-type: {content_type!r:.100}; expected application/json."
            )

        async def read_and_search() -> str:
            raw = await read_body(request, service.limits.message_bytes)
            return await service.compute(
                lambda: search(index, 1, parse_json(raw)).model_dump_json()
            )

        return _json(await service.handle("search", read_and_search))

    return [
        Route("/v1/search", get, methods=["GET"]),
        Route("/v1/search", post, methods=["POST"]),
    ]


def _json(text: str) -> Response:
    return Response(
        text.encode("utf-8", "replace"),
        media_type="application/json",
        headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
    )
