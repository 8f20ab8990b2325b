"""The routes of `/v1/search`."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dssm_tf.retrieval.opening import AnyIndex
from dssm_tf.server.limits import NOT_FOUND, WRONG_TYPE, Refusal
from dssm_tf.server.models import ServedModel, Snapshot
from dssm_tf.server.scheduler import Blocks
from dssm_tf.server.search_api import parse_json, parse_parameters, search
from dssm_tf.server.search_schema import SearchRequest
from dssm_tf.server.service import Service

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def search_api_routes(service: Service) -> list[Route]:
    """`GET` and `POST /v1/search`. Searches are subject to the limits of the service."""

    async def answer(size: int, parse: Callable[[], SearchRequest]) -> bytes:
        snapshot = service.snapshot

        def blocks() -> Blocks[tuple[bool, bytes]]:
            yield from ()  # makes this a generator: a search is one block
            index, model = _index_of(snapshot)
            response = search(index, model.version, parse())
            return response.no_good_match, response.model_dump_json().encode("utf-8", "replace")

        no_good_match, text = await service.compute("search", size, blocks)
        service.metrics.count_search(no_good_match)
        return text

    async def get(request: Request) -> Response:
        parameters = request.query_params.multi_items()
        return _json(
            await service.handle("search", lambda: answer(0, lambda: parse_parameters(parameters)))
        )

    async def post(request: Request) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refusal(
                WRONG_TYPE, f"content-type: {content_type!r:.100}; expected application/json."
            )

        async def read_and_search() -> bytes:
            async with service.bodies.read(request) as body:
                return await answer(len(body), lambda: parse_json(body))

        return _json(await service.handle("search", read_and_search))

    return [
        Route("/v1/search", get, methods=["GET"]),
        Route("/v1/search", post, methods=["POST"]),
    ]


def _index_of(snapshot: Snapshot) -> tuple[AnyIndex, ServedModel]:
    if snapshot.index is None:
        raise Refusal(NOT_FOUND, "no index is served; start the server with --index.")
    return snapshot.index


def _json(text: bytes) -> Response:
    return Response(text, media_type="application/json", headers=_HEADERS)
