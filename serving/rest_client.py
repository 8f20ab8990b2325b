"""The REST client: the standard library and NumPy are all it needs."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from serving.model_client import ModelClient, ServingError, VersionStatus

HOST = "127.0.0.1:8501"

_STATUS_OF_HTTP = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class RestClient(ModelClient):
    """A client of TensorFlow Serving's REST interface, for where gRPC cannot be had.

    Slower than `Client` for vectors, which travel as decimal text. The arguments are those of
    `ModelClient`; `host` may also be a whole address, `https://ranker.example.com/prefix`.
    """

    def __init__(self, host: str = HOST, model: str = "lstm", **options: Any) -> None:
        super().__init__(host, model, **options)
        address = host if "://" in host else f"http://{host}"
        if not address.startswith(("http://", "https://")):
            raise ValueError(f"host is {host!r}; expected HOST:PORT or an http address.")
        version = "" if self.version is None else f"/versions/{self.version}"
        name = urllib.parse.quote(model, safe="")
        self._address = f"{address.rstrip('/')}/v1/models/{name}{version}"
        # A model server is a neighbour: the environment's proxies are for the world outside.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows."""
        answer = self._request("status", self._address, None, self.timeout)
        try:
            return [
                VersionStatus(
                    int(one["version"]), one["state"], one["status"].get("error_message", "")
                )
                for one in answer["model_version_status"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._error("status", "BAD_ANSWER", f"unexpected JSON ({error!r})") from error

    def close(self) -> None:
        """Does nothing: no connection outlives its request."""

    def _predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]], output: str, timeout: float
    ) -> Any:
        body = {
            "signature_name": signature,
            "inputs": {name: list(map(_json_text, texts)) for name, texts in inputs.items()},
        }
        answer = self._request(signature, f"{self._address}:predict", body, timeout)
        outputs = answer.get("outputs") if isinstance(answer, dict) else None
        # A signature's only output comes without its name.
        if isinstance(outputs, dict):
            outputs = outputs.get(output)
        if outputs is None:
            raise self._error(signature, "BAD_ANSWER", f"the answer has no output {output!r}")
        return outputs

    def _request(self, call: str, address: str, body: Any, timeout: float) -> Any:
        data = None if body is None else json.dumps(body).encode("ascii")
        request = urllib.request.Request(
            address, data, {"Content-Type": "application/json", "Accept": "application/json"}
        )
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(call, error) from error
        except TimeoutError as error:
            raise self._late(call) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._late(call) from error
            raise self._error(call, "UNAVAILABLE", str(error.reason)) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._error(call, "UNAVAILABLE", repr(error)) from error
        except ValueError as error:
            raise self._error(call, "BAD_ANSWER", f"not JSON ({error})") from error

    def _refusal(self, call: str, error: urllib.error.HTTPError) -> ServingError:
        raw = error.read().decode("utf-8", "replace")
        try:
            details = str(json.loads(raw)["error"])
        except (KeyError, TypeError, ValueError):
            details = raw or error.reason
        status = _STATUS_OF_HTTP.get(error.code, "UNKNOWN")
        return self._error(call, status, f"HTTP {error.code}, {details}")

    def _late(self, call: str) -> ServingError:
        return self._error(call, "DEADLINE_EXCEEDED", f"no answer within {self.timeout:g} s")


def _json_text(text: str) -> str | dict[str, str]:
    """A text as TensorFlow Serving reads it from JSON.

    JSON has no lone surrogates, and not every reader takes NUL; such texts travel as base64.

    >>> _json_text("red shoes"), _json_text("nul" + chr(0))
    ('red shoes', {'b64': 'bnVsAA=='})
    """
    raw = text.encode("utf-8", "surrogatepass")
    if "\x00" in text or raw != text.encode("utf-8", "replace"):
        return {"b64": base64.b64encode(raw).decode("ascii")}
    return text
