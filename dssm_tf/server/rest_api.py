"""TensorFlow Serving's REST interface, version 1, and its metrics, as an ASGI application."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Executor
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from google.protobuf import json_format
from numpy.typing import NDArray

from dssm_tf.server import metrics
from dssm_tf.server.servable import Texts
from dssm_tf.server.service import Refusal, Service
from serving.predict_pb2 import ModelSpec, SignatureDef

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(rf"{_MODEL}:(?P<verb>predict|classify|regress)", re.IGNORECASE)
_ABOUT = re.compile(rf"{_MODEL}(?P<metadata>/metadata)?", re.IGNORECASE)

_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 413,
    "DEADLINE_EXCEEDED": 504,
}
_JSON = "application/json"
_MOST_VERSION = (1 << 63) - 1


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    content: bytes
    type: str = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


Page = Callable[[str, str], Answer | None]
"""Answers a GET of a path and a query string, or None where there is no such page."""


class RestApi:
    """The application.

    Args:
        service: answers.
        pool: whose threads work, so that the event loop is free.
        timeout: seconds a request may take, its body included.
        page: further pages.
    """

    def __init__(
        self, service: Service, pool: Executor, timeout: float, page: Page | None = None
    ) -> None:
        self._service = service
        self._pool = pool
        self._timeout = timeout
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            answer = await asyncio.wait_for(self._answer(scope, receive), self._timeout)
        except _Gone:
            return
        except Refusal as refusal:
            answer = _refused(refusal)
        except asyncio.TimeoutError:  # another class before Python 3.11
            late = f"not answered within {self._timeout:g} s, which rest_api_timeout_in_ms sets."
            answer = _refused(Refusal("DEADLINE_EXCEEDED", late))
        headers = [
            (b"content-type", answer.type.encode()),
            (b"content-length", str(len(answer.content)).encode()),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.content
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path = scope["raw_path"].decode("latin-1")
        method = scope["method"]
        body = await _body(receive, self._service.limits.body_bytes)
        work = asyncio.get_running_loop().run_in_executor
        if not path.lower().startswith("/v1/"):
            if method in ("GET", "HEAD"):
                asked = scope["query_string"].decode("latin-1")
                found = await work(self._pool, self._other, path, asked)
                if found is not None:
                    return found
            return Answer(404, _dump({"error": f"there is no {path[:100]} here."}))
        if method == "POST" and (match := _PREDICT.fullmatch(path)):
            if match["verb"].lower() != "predict":
                raise Refusal(
                    "INVALID_ARGUMENT", f":{match['verb']} is no way to ask a ranker; use :predict."
                )
            return await work(self._pool, self._predict, _spec(match), body)
        if method in ("GET", "HEAD") and (match := _ABOUT.fullmatch(path)):
            about = self._metadata if match["metadata"] else self._status
            return await work(self._pool, about, _spec(match))
        raise Refusal(
            "INVALID_ARGUMENT",
            f"{method} {path[:100]} is no request; expected GET /v1/models/NAME or POST "
            "/v1/models/NAME:predict.",
        )

    def _other(self, path: str, asked: str) -> Answer | None:
        if path == metrics.PATH:
            return Answer(200, self._service.metrics.text().encode(), "text/plain")
        return self._page(path, asked) if self._page else None

    def _predict(self, spec: ModelSpec, body: bytes) -> Answer:
        service = self._service
        with service.counted(spec, "predict", "REST"):
            asked = _parse(body)
            name = asked.get("signature_name", "")
            if not isinstance(name, str):
                raise Refusal("INVALID_ARGUMENT", "signature_name is no text.")
            version = service.version(spec)
            name, signature = service.signature(version, name, "INVALID_ARGUMENT")
            rows = "instances" in asked
            if rows == ("inputs" in asked):
                raise Refusal(
                    "INVALID_ARGUMENT",
                    "the body holds both or none of `instances` and `inputs`; expected one.",
                )
            read = _read_rows if rows else _read_columns
            inputs = read(asked["instances" if rows else "inputs"], signature)
            found = service.run(version, name, inputs)
            return Answer(200, _dump(_as_rows(found) if rows else _as_columns(found)))

    def _status(self, spec: ModelSpec) -> Answer:
        told = [
            {
                "version": str(number),
                "state": state.name,
                "status": {
                    "error_code": "UNKNOWN" if state.error else "OK",
                    "error_message": state.error,
                },
            }
            for number, state in self._service.states(spec).items()
        ]
        return Answer(200, _dump({"model_version_status": told}, indent=1))

    def _metadata(self, spec: ModelSpec) -> Answer:
        version = self._service.version(spec)
        signatures = json_format.MessageToDict(
            version.servable.definition,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        name = {"name": version.model, "signature_name": "", "version": str(version.number)}
        told = {"model_spec": name, "metadata": {"signature_def": signatures}}
        return Answer(200, _dump(told, indent=1))


class _Gone(Exception):
    """The client did not wait."""


async def _body(receive: Receive, most: int) -> bytes:
    """A request's body; one that is too long is read to its end, so that its sender listens."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        size += len(piece := message.get("body", b""))
        if size <= most:
            parts.append(piece)
        else:
            parts.clear()
        if not message.get("more_body"):
            break
    if size > most:
        raise Refusal(
            "RESOURCE_EXHAUSTED",
            f"the body has {size:,} bytes, more than max_body_bytes, {most:,}.",
        )
    return b"".join(parts)


def _spec(match: re.Match[str]) -> ModelSpec:
    spec = ModelSpec(name=unquote(match["name"]))
    if match["version"]:
        if len(match["version"]) > 19 or int(match["version"]) > _MOST_VERSION:
            raise Refusal("INVALID_ARGUMENT", f"{match['version'][:30]} is no version of a model.")
        spec.version.value = int(match["version"])
    if match["label"]:
        spec.version_label = unquote(match["label"])
    return spec


def _parse(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("INVALID_ARGUMENT", f"the body is no JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Refusal("INVALID_ARGUMENT", f"the body is {_kind(asked)}; expected an object.")
    return asked


def _read_rows(rows: Any, signature: SignatureDef) -> Texts:
    """Row format: an object with a text of each input, a row; of one input, the text will do."""
    if not isinstance(rows, list) or not rows:
        raise Refusal("INVALID_ARGUMENT", "instances is no list of at least one row.")
    names = sorted(signature.inputs)
    bare = len(names) == 1 and not _is_object(rows[0])
    inputs: dict[str, list[bytes]] = {name: [] for name in names}
    for place, row in enumerate(rows):
        if bare:
            inputs[names[0]].append(_text(f"instances[{place}]", row))
            continue
        if not _is_object(row) or sorted(row) != names:
            keys = sorted(row) if isinstance(row, dict) else _kind(row)
            raise Refusal(
                "INVALID_ARGUMENT",
                f"instances[{place}] is {keys!s:.200}; expected an object with {', '.join(names)}.",
            )
        for name in names:
            inputs[name].append(_text(f"instances[{place}][{name!r}]", row[name]))
    return inputs


def _read_columns(columns: Any, signature: SignatureDef) -> Texts:
    """Column format: a list of texts for each input; of one input, the list will do."""
    names = sorted(signature.inputs)
    if not _is_object(columns):
        if len(names) > 1:
            raise Refusal(
                "INVALID_ARGUMENT",
                f"inputs is {_kind(columns)}; expected an object with {', '.join(names)}.",
            )
        return {names[0]: _texts("inputs", columns)}
    if missing := [name for name in names if name not in columns]:
        raise Refusal("INVALID_ARGUMENT", f"inputs lacks {', '.join(missing)}.")
    return {name: _texts(f"inputs[{name!r}]", columns[name]) for name in names}


def _texts(field: str, values: Any) -> list[bytes]:
    if not isinstance(values, list):
        raise Refusal("INVALID_ARGUMENT", f"{field} is {_kind(values)}; expected a list of texts.")
    return [_text(f"{field}[{place}]", value) for place, value in enumerate(values)]


def _text(field: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, dict) or _is_object(value):
        raise Refusal(
            "INVALID_ARGUMENT", f'{field} is {_kind(value)}; expected a text, or {{"b64": TEXT}}.'
        )
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise Refusal("INVALID_ARGUMENT", f"{field}['b64'] is no base64.") from None


def _is_object(value: Any) -> bool:
    """Whether a value is an object, and not a text in base64."""
    encoded = isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)
    return isinstance(value, dict) and not encoded


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _as_columns(found: dict[str, NDArray[Any]]) -> dict[str, Any]:
    lists = {name: _numbers(values) for name, values in found.items()}
    return {"outputs": next(iter(lists.values())) if len(lists) == 1 else lists}


def _as_rows(found: dict[str, NDArray[Any]]) -> dict[str, Any]:
    lists = [_numbers(values) for values in found.values()]
    if len(lists) == 1:
        return {"predictions": lists[0]}
    rows = [dict(zip(found, row, strict=True)) for row in zip(*lists, strict=True)]
    return {"predictions": rows}


def _numbers(values: NDArray[Any]) -> list[Any]:
    """Numbers as JSON has them; nine digits tell one float32 from all others."""
    if values.dtype != np.float32:
        return list(values.tolist())
    short = [float(f"{value:.9g}") for value in values.ravel().tolist()]
    return list(np.reshape(short, values.shape).tolist())


def _dump(told: Any, indent: int | None = None) -> bytes:
    return json.dumps(told, indent=indent).encode() + b"\n"


def _refused(refusal: Refusal) -> Answer:
    return Answer(_HTTP.get(refusal.status, 500), _dump({"error": str(refusal)}))
