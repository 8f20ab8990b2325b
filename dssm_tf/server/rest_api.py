"""TensorFlow Serving's REST interface, version 1, and its metrics, as an ASGI application."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
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

_PATH = re.compile(
    r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?P<what>|/metadata|:predict|:classify|:regress)",
    re.IGNORECASE,
)
_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 413,
    "DEADLINE_EXCEEDED": 504,
}
_READING = ("GET", "HEAD")
_MOST_VERSION = (1 << 63) - 1


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    content: bytes
    type: str = "application/json"
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
            answer = _json({"error": str(refusal)}, status=_HTTP.get(refusal.status, 500))
        except asyncio.TimeoutError:  # another class before Python 3.11
            late = f"not answered within {self._timeout:g} s, which rest_api_timeout_in_ms sets."
            answer = _json({"error": late}, status=504)
        headers = [
            (b"content-type", answer.type.encode()),
            (b"content-length", str(len(answer.content)).encode()),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else answer.content
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        body = await _body(receive, self._service.limits.body_bytes)
        path, asked = (scope[key].decode("latin-1") for key in ("raw_path", "query_string"))
        work = asyncio.get_running_loop().run_in_executor
        return await work(self._pool, self._route, scope["method"], path, asked, body)

    def _route(self, method: str, path: str, asked: str, body: bytes) -> Answer:
        if not path.lower().startswith("/v1/"):
            found = self._other(path, asked) if method in _READING else None
            return found or _json({"error": f"there is no {path[:100]} here."}, status=404)
        match = _PATH.fullmatch(path)
        what = match["what"].lower() if match else None
        if match and what == ":predict" and method == "POST":
            return self._predict(_spec(match), body)
        if match and what == "" and method in _READING:
            return self._status(_spec(match))
        if match and what == "/metadata" and method in _READING:
            return self._metadata(_spec(match))
        raise Refusal(
            f"{method} {path[:100]} is no request; expected GET /v1/models/NAME or POST "
            "/v1/models/NAME:predict."
        )

    def _other(self, path: str, asked: str) -> Answer | None:
        if path == metrics.PATH:
            return Answer(200, self._service.metrics.text().encode(), "text/plain")
        return self._page(path, asked) if self._page else None

    def _predict(self, spec: ModelSpec, body: bytes) -> Answer:
        with self._service.counted(spec, "predict", "REST"):
            asked = _parse(body)
            if not isinstance(name := asked.get("signature_name", ""), str):
                raise Refusal("signature_name is no text.")
            rows = "instances" in asked
            if rows == ("inputs" in asked):
                raise Refusal("the body holds both or none of `instances` and `inputs`.")
            read = _rows if rows else _columns
            given = asked["instances" if rows else "inputs"]
            found = self._service.predict(spec, name, lambda signature: read(given, signature))
            lists: Any = {name: _numbers(values) for name, values in found.outputs.items()}
            if len(lists) == 1:
                (lists,) = lists.values()
            elif rows:
                whole = zip(*lists.values(), strict=True)
                lists = [dict(zip(lists, row, strict=True)) for row in whole]
            return _json({"predictions" if rows else "outputs": lists})

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
        return _json({"model_version_status": told}, indent=1)

    def _metadata(self, spec: ModelSpec) -> Answer:
        version = self._service.version(spec)
        signatures = json_format.MessageToDict(
            version.servable.definition,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        name = {"name": version.model, "signature_name": "", "version": str(version.number)}
        return _json({"model_spec": name, "metadata": {"signature_def": signatures}}, indent=1)


class _Gone(Exception):
    """The client did not wait."""


async def _body(receive: Receive, most: int) -> bytes:
    """A request's body; one that is too long is read to its end, so that its sender listens."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        size += len(piece := message.get("body", b""))
        parts.append(piece)
        if size > most:
            parts.clear()
        more = message.get("more_body", False)
    if size > most:
        told = f"the body has {size:,} bytes, more than max_body_bytes, {most:,}."
        raise Refusal(told, "RESOURCE_EXHAUSTED")
    return b"".join(parts)


def _spec(match: re.Match[str]) -> ModelSpec:
    spec = ModelSpec(name=unquote(match["name"]))
    if number := match["version"]:
        if len(number) > 19 or int(number) > _MOST_VERSION:
            raise Refusal(f"{number[:30]} is no version of a model.")
        spec.version.value = int(number)
    if match["label"]:
        spec.version_label = unquote(match["label"])
    return spec


def _parse(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is no JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Refusal(f"the body is {_kind(asked)}; expected an object.")
    return asked


def _rows(rows: Any, signature: SignatureDef) -> Texts:
    """Row format: an object with a text of each input, a row; of one input, the text will do."""
    if not isinstance(rows, list) or not rows:
        raise Refusal("instances is no list of at least one row.")
    names = sorted(signature.inputs)
    if len(names) == 1 and not _is_object(rows[0]):
        return {names[0]: _texts("instances", rows)}
    for place, row in enumerate(rows):
        _check_names(f"instances[{place}]", row, names)
    return {
        name: [
            _text(f"instances[{place}][{name!r}]", row[name]) for place, row in enumerate(rows)
        ]
        for name in names
    }  # fmt: skip


def _columns(columns: Any, signature: SignatureDef) -> Texts:
    """Column format: a list of texts for each input; of one input, the list will do."""
    names = sorted(signature.inputs)
    if len(names) == 1 and not _is_object(columns):
        return {names[0]: _texts("inputs", columns)}
    _check_names("inputs", columns, names)
    return {name: _texts(f"inputs[{name!r}]", columns[name]) for name in names}


def _check_names(field: str, value: Any, names: Sequence[str]) -> None:
    if not _is_object(value) or sorted(value) != names:
        found = sorted(value) if isinstance(value, dict) else _kind(value)
        raise Refusal(f"{field} is {found!s:.200}; expected an object with {', '.join(names)}.")


def _texts(field: str, values: Any) -> list[bytes]:
    if not isinstance(values, list):
        raise Refusal(f"{field} is {_kind(values)}; expected a list of texts.")
    return [_text(f"{field}[{place}]", value) for place, value in enumerate(values)]


def _text(field: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, dict) or _is_object(value):
        raise Refusal(f'{field} is {_kind(value)}; expected a text, or {{"b64": TEXT}}.')
    try:
        return base64.b64decode(value["b64"], validate=True)
    except ValueError:
        raise Refusal(f"{field}['b64'] is no base64.") from None


def _is_object(value: Any) -> bool:
    """Whether a value is an object, and not a text in base64."""
    if not isinstance(value, dict):
        return False
    return list(value) != ["b64"] or not isinstance(value["b64"], str)


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _numbers(values: NDArray[Any]) -> list[Any]:
    """Numbers as JSON has them; nine digits tell one float32 from all others."""
    if values.dtype == np.float32:
        values = values.astype(np.float64)
        powers = np.log10(np.abs(values), where=values != 0, out=np.zeros_like(values))
        scale = 10.0 ** (8 - np.floor(powers))
        values = np.rint(values * scale) / scale
    return list(values.tolist())


def _json(told: Any, status: int = 200, indent: int | None = None) -> Answer:
    return Answer(status, json.dumps(told, indent=indent).encode() + b"\n")
