"""The benchmark of all commands ends with an error if its server does not answer."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks import catalog
from tests.benchmarks.catalog import search_until_ready
from tests.ports import free_ports


class Refuses(BaseHTTPRequestHandler):
    """Answers each request with an error."""

    def do_POST(self) -> None:
        """Refuses a search."""
        self.send_response(400)
        self.end_headers()
        self.wfile.write(b"query: expected a text.")

    def log_message(self, *_: Any) -> None:
        """Writes nothing."""


def process(status: int | None = None) -> Any:
    """A server's process, which runs or has ended with a status."""
    return SimpleNamespace(poll=lambda: status)


def test_a_refused_search_ends_the_benchmark_with_the_message_of_the_server(monkeypatch):
    monkeypatch.setattr(catalog, "LONGEST_START", 1.0)
    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1/search"
        with pytest.raises(RuntimeError, match="answered 400: query: expected a text"):
            next(search_until_ready(url, ["red fox"], process()))
        server.shutdown()


def test_a_server_that_never_listens_ends_the_benchmark(monkeypatch):
    monkeypatch.setattr(catalog, "LONGEST_START", 0.1)
    url = f"http://127.0.0.1:{free_ports(1)[0]}/v1/search"
    with pytest.raises(RuntimeError, match="no answer within"):
        next(search_until_ready(url, ["red fox"], process()))
    with pytest.raises(RuntimeError, match="the server ended"):
        next(search_until_ready(url, ["red fox"], process(1)))
