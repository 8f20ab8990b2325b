"""A small HTTP server that answers `_msearch` as OpenSearch does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = tuple[int, Any]
"""Status and content: JSON, or bytes."""


class FakeNode:
    """A node with an index.

    Attributes:
        titles: titles by document id; a search finds those that have a word of its query, with most
            of them first.
        index: name of the index.
        answer: replaces the answers of the index; called with the bodies of the searches.
        requests: the searches of each request.
        headers: the headers of each request.
    """

    def __init__(self, port: int, titles: dict[str, str], index: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.titles, self.index = titles, index
        self.answer: Callable[[list[Any]], Answer | None] = lambda bodies: None
        self.requests: list[list[Any]] = []
        self.headers: list[dict[str, str]] = []

    def respond(self, path: str, content: bytes) -> Answer:
        bodies = [json.loads(line) for line in content.splitlines()[1::2]]
        self.requests.append(bodies)
        if answer := self.answer(bodies):
            return answer
        if path != f"/{self.index}/_msearch":
            reason = f"no such index [{path.split('/')[1]}]"
            error = {"root_cause": [{"type": "index_not_found_exception", "reason": reason}]}
            return 200, {"responses": [{"error": error, "status": 404} for _ in bodies]}
        return 200, {"responses": [self.search(body) for body in bodies]}

    def search(self, body: Any) -> Any:
        """The result of one search with the query `{"match": {"title": TEXT}}`."""
        words = {*body["query"]["match"]["title"].split()}
        counts = {key: len(words & {*title.split()}) for key, title in self.titles.items()}
        found = sorted((key for key in counts if counts[key]), key=lambda key: -counts[key])
        hits = [{"_id": key, "_score": float(counts[key])} for key in found[: body["size"]]]
        if body["_source"]:
            hits = [hit | {"_source": {"sku": {"id": f"sku-{hit['_id']}"}}} for hit in hits]
        return {"hits": {"hits": hits}, "status": 200, "timed_out": False, "_shards": {"failed": 0}}


@contextmanager
def fake_node(titles: dict[str, str], index: str = "shop") -> Iterator[FakeNode]:
    """Starts a node on a free port; stops it at the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            node.headers.append(dict(self.headers))
            content = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = node.respond(self.path, content)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "https://example.org/login")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # a client that no longer waits
        node = FakeNode(server.server_address[1], titles, index)
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield node
        finally:
            server.shutdown()
            thread.join()
