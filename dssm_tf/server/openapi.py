"""The description of the REST interface at `/openapi.json`."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from dssm_tf import __version__
from dssm_tf.server.search_schema import Error, SearchRequest, SearchResponse

_ERRORS = {
    "400": "The request is not valid.", "403": "The header Origin names a foreign site.",
    "404": "No such model or version.", "413": "The request is too large.",
    "415": "The body is not JSON.", "503": "The server is busy; Retry-After says when to retry.",
    "504": "Not answered within the time limit.",
}  # fmt: skip
_REFERENCE = "#/components/schemas/"


def openapi(has_index: bool) -> dict[str, Any]:
    """The document, of OpenAPI 3.1.

    Args:
        has_index: whether the server has an index, and therefore `/v1/search`.
    """
    models = [(model, "serialization") for model in (SearchResponse, Error)]
    _, schemas = models_json_schema(
        [(SearchRequest, "validation"), *models],  # type: ignore[list-item]
        ref_template=_REFERENCE + "{model}",
    )
    paths = {
        "/v1/models/{model}": {"get": _operation("Versions and states of a model")},
        "/v1/models/{model}:predict": {
            "post": _operation("Scores or vectors of texts, as in TensorFlow Serving")
            | {"requestBody": _content({"type": "object"})}
        },
        "/health": {
            "get": {"summary": "Whether the server answers", "responses": _ok("text/plain")}
        },
        "/metrics": {"get": {"summary": "Prometheus metrics", "responses": _ok("text/plain")}},
    }
    for path in ("/v1/models/{model}", "/v1/models/{model}:predict"):
        paths[path]["parameters"] = [  # type: ignore[assignment]
            {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if has_index:
        paths["/v1/search"] = _search(schemas["$defs"]["SearchRequest"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "dssm serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _search(request: dict[str, Any]) -> dict[str, Any]:
    """The two operations of `/v1/search`."""
    parameters = []
    for name, schema in request["properties"].items():
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": name == "query"}
        parameter["description"] = schema.get("description", "")
        if name == "filters":  # JSON in a parameter
            parameter["content"] = {"application/json": {"schema": schema}}
        else:
            parameter["schema"] = schema
        parameters.append(parameter)
    answer = _operation("Searches the index", f"{_REFERENCE}SearchResponse")
    body = _content({"$ref": f"{_REFERENCE}SearchRequest"})
    return {"get": answer | {"parameters": parameters}, "post": answer | {"requestBody": body}}


def _operation(summary: str, reference: str | None = None) -> dict[str, Any]:
    """An operation that answers with JSON, or with an error."""
    schema = {"type": "object"} if reference is None else {"$ref": reference}
    error = _content({"$ref": f"{_REFERENCE}Error"})
    responses = {"200": {"description": "The answer."} | _content(schema)}
    responses |= {code: {"description": text} | error for code, text in _ERRORS.items()}
    return {"summary": summary, "responses": responses}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _ok(media_type: str) -> dict[str, Any]:
    return {"200": {"description": "The answer.", "content": {media_type: {}}}}
