"""The REST client: the standard library and NumPy are all it needs."""

from __future__ import annotations

import base64
import http.client
import io
import json
import re
import socket
import ssl
import urllib.parse
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from serving.address import join_address, split_address
from serving.model_client import ModelClient, ServingError, VersionStatus

PORT = 8501
HOST = f"127.0.0.1:{PORT}"

_NUMBER_BYTES = 32  # a number of an answer, with comma and indentation
_ANSWER_BYTES = 1 << 20  # what else an answer may hold
_ERROR_BYTES = 1 << 16  # what is read of a refusal
_PIECE = 1 << 16  # bytes read at once

_STATUS_OF_HTTP = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    412: "FAILED_PRECONDITION",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class RestClient(ModelClient):
    """A client of TensorFlow Serving's REST interface, for where gRPC cannot be had.

    Slower than `Client` for vectors, which travel as decimal text. Connects directly, whatever
    proxies the environment names, and follows no redirect: a query goes where it was sent.

    Args:
        host: `HOST:PORT`, or a whole address, `https://ranker.example.com/prefix`.
        model: the served model's name.
        context: certificates for https, such as `ssl.create_default_context(cafile="ca.pem")`; the
            system's by default.
        options: further arguments of `ModelClient`. The timeout does not cut short how long the
            system looks a name up.
    """

    def __init__(
        self,
        host: str = HOST,
        model: str = "lstm",
        *,
        context: ssl.SSLContext | None = None,
        **options: Any,
    ) -> None:
        scheme, separator, rest = host.rpartition("://")
        address, slash, path = rest.partition("/")
        ports = {"http": 80, "https": 443} if separator else {"": PORT}
        if scheme not in ports or (slash and not scheme) or re.search(r"[^!-~]|[?#]", path):
            raise ValueError(
                f"host is {host[:100]!r}; expected HOST:PORT or http://HOST:PORT/PATH."
            )
        self._host, self._port = split_address(address, ports[scheme])
        super().__init__(
            host if separator else join_address(self._host, self._port), model, **options
        )
        self._context = context
        if scheme == "https" and context is None:
            self._context = ssl.create_default_context()
        if scheme != "https" and context is not None:
            raise ValueError(f"host is {host!r}; certificates are for an https address.")
        version = "" if self.version is None else f"/versions/{self.version}"
        name = urllib.parse.quote(model, safe="")
        self._path = f"{slash}{path}".rstrip("/") + f"/v1/models/{name}{version}"

    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows."""
        answer = self._request("status", self._path, None, _ANSWER_BYTES, self.timeout)
        try:
            return [
                VersionStatus(
                    int(one["version"]), str(one["state"]), one["status"].get("error_message", "")
                )
                for one in answer["model_version_status"]
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._error("status", "BAD_ANSWER", f"unexpected JSON ({error!r})") from error

    def close(self) -> None:
        """Does nothing: no connection outlives its request."""

    def _predict(
        self,
        signature: str,
        inputs: Mapping[str, Sequence[str]],
        output: str,
        most: int,
        timeout: float,
    ) -> Any:
        body = {
            "signature_name": signature,
            "inputs": {name: list(map(_json_text, texts)) for name, texts in inputs.items()},
        }
        limit = _ANSWER_BYTES + most * _NUMBER_BYTES
        answer = self._request(signature, f"{self._path}:predict", body, limit, timeout)
        outputs = answer.get("outputs") if isinstance(answer, dict) else None
        # A signature's only output comes without its name.
        if isinstance(outputs, dict):
            outputs = outputs.get(output)
        if outputs is None:
            raise self._error(signature, "BAD_ANSWER", f"the answer has no output {output!r}")
        return outputs

    def _request(self, call: str, path: str, body: Any, limit: int, timeout: float) -> Any:
        """Asks once, all of it within the timeout; returns the answer's JSON."""
        data = None if body is None else json.dumps(body).encode("ascii")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        deadline = monotonic() + timeout
        try:
            with self._connect(deadline) as sock:
                connection = http.client.HTTPConnection(self._host, self._port)
                connection.sock = _Timed(sock, deadline)
                connection.request("GET" if data is None else "POST", path, data, headers)
                answer = connection.getresponse()
                if answer.status != 200:
                    raise self._refusal(call, answer)
                raw = _read(answer, limit + 1)
            if len(raw) > limit:
                reason = f"more than {limit:,} bytes, which is more than was asked for"
                raise self._error(call, "BAD_ANSWER", reason)
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            return json.loads(raw)
        except TimeoutError as error:
            late = f"no whole answer within {self.timeout:g} s"
            raise self._error(call, "DEADLINE_EXCEEDED", late) from error
        except OSError as error:
            raise self._error(call, "UNAVAILABLE", str(error)) from error
        except http.client.HTTPException as error:
            raise self._error(call, "UNAVAILABLE", repr(error)) from error
        except (ValueError, RecursionError) as error:
            raise self._error(call, "BAD_ANSWER", f"not JSON ({error})") from error

    def _connect(self, deadline: float) -> socket.socket:
        """A connection to the first of the host's addresses that takes one."""
        failure: OSError | None = None
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM
        ):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(_left(deadline))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._context is not None:
                    sock.settimeout(_left(deadline))
                    sock = self._context.wrap_socket(sock, server_hostname=self._host)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure or OSError(f"{self._host} has no address")

    def _refusal(self, call: str, answer: http.client.HTTPResponse) -> ServingError:
        try:
            raw = _read(answer, _ERROR_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            raw = ""  # the status says enough where the rest stalls or is cut
        try:
            details = str(json.loads(raw)["error"])
        except (KeyError, TypeError, ValueError, RecursionError):
            details = raw or answer.reason
        status = _STATUS_OF_HTTP.get(answer.status, "UNKNOWN")
        if 300 <= answer.status < 400:
            status, details = "REDIRECTED", f"to {answer.getheader('Location')}"
        return self._error(call, status, f"HTTP {answer.status}, {details}")


def _left(deadline: float) -> float:
    """Seconds left until a time of `monotonic`."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read(answer: http.client.HTTPResponse, limit: int) -> bytes:
    """The answer's body, or its first bytes."""
    raw = bytearray()
    while piece := answer.read(min(_PIECE, limit - len(raw))):
        raw += piece
    return bytes(raw)


class _Timed:
    """A socket for `http.client` with one deadline for all that is sent and read.

    The socket's own timeout starts again with every byte that comes.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_left(self._deadline))
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._deadline))

    def close(self) -> None:
        """Leaves the socket open: `http.client` closes its own before it has read the answer."""


class _Incoming(io.RawIOBase):
    """What a socket receives until the deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._deadline))
        return self._sock.recv_into(buffer)


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
