"""A ranker small enough to check by hand, served as TensorFlow Serving would, on loopback."""

from __future__ import annotations

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
import pytest

from serving import messages, predict_pb2

INPUTS = {
    "encode_query": {"queries"},
    "encode_title": {"titles"},
    "encode_query_with_prior": {"queries"},
    "encode_title_with_prior": {"titles"},
    "score": {"queries", "titles"},
}


class Refused(Exception):
    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class TinyRanker:
    """Model `tiny`, version 3, with the rules of a server that batches at most eight texts.

    score: the share of the title's words that the query has; embedding: bytes and words, and 7
    where the prior would stand.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []
        self.answering = threading.Event()
        self.answering.set()
        self.replaced_output: dict[str, np.ndarray] | None = None

    def check(self, model: str, version: int | None) -> None:
        if model != "tiny" or version not in (None, 3):
            raise Refused("NOT_FOUND", f"Servable not found for request: Latest({model})")

    def predict(self, model, version, signature, inputs: dict[str, list[bytes]]):
        self.check(model, version)
        self.answering.wait(60)
        if signature not in INPUTS:
            raise Refused("FAILED_PRECONDITION", f'Serving signature key "{signature}" not found.')
        if set(inputs) != INPUTS[signature]:
            raise Refused("INVALID_ARGUMENT", f"input keys {sorted(inputs)}")
        sizes = {len(texts) for texts in inputs.values()}
        if len(sizes) != 1:
            raise Refused("INVALID_ARGUMENT", "inputs must have equal 0th-dimension size")
        self.requests.append((signature, *sizes))
        if max(sizes) > 8:
            raise Refused("INVALID_ARGUMENT", f"Task size {max(sizes)} is larger than 8")
        if self.replaced_output is not None:
            return self.replaced_output
        if signature == "score":
            pairs = zip(inputs["queries"], inputs["titles"], strict=True)
            return {"scores": np.array([share(q, t) for q, t in pairs], np.float32)}
        (texts,) = inputs.values()
        rows = [[len(text), len(text.split())] for text in texts]
        if signature.endswith("_with_prior"):
            rows = [[*row, 7] for row in rows]
        return {"embeddings": np.array(rows, np.float32)}


def share(query: bytes, title: bytes) -> float:
    words = title.split()
    return sum(word in query.split() for word in words) / max(1, len(words))


@pytest.fixture
def ranker() -> TinyRanker:
    return TinyRanker()


@pytest.fixture
def grpc_address(ranker):
    with served_over_grpc(ranker) as address:
        yield address


@contextmanager
def served_over_grpc(ranker: TinyRanker, port: int = 0, credentials=None):
    """Serves until the block ends; yields the address."""

    def answer(work):
        def handler(request, context):
            try:
                return work(request)
            except Refused as refused:
                context.abort(grpc.StatusCode[refused.status], str(refused))

        return handler

    def version(spec):
        return spec.version.value if spec.HasField("version") else None

    def predict(request):
        spec = request.model_spec
        inputs = {
            name: messages.decode_tensor(tensor, 1000).tolist()
            for name, tensor in request.inputs.items()
        }
        outputs = ranker.predict(spec.name, version(spec), spec.signature_name, inputs)
        response = predict_pb2.PredictResponse()
        for name, array in outputs.items():
            response.outputs[name].CopyFrom(messages.encode_tensor(array))
        return response

    def status(request):
        ranker.check(request.model_spec.name, version(request.model_spec))
        response = predict_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=3, state=30)
        return response

    def method(work, request, response):
        return grpc.unary_unary_rpc_method_handler(
            answer(work), request.FromString, response.SerializeToString
        )

    handlers = {
        messages.PREDICT: method(predict, predict_pb2.PredictRequest, predict_pb2.PredictResponse),
        messages.GET_MODEL_STATUS: method(
            status, predict_pb2.GetModelStatusRequest, predict_pb2.GetModelStatusResponse
        ),
    }
    server = grpc.server(ThreadPoolExecutor(2))
    for path, handler in handlers.items():
        service, name = path.strip("/").split("/")
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {name: handler}),)
        )
    address = f"127.0.0.1:{port}"
    port = (
        server.add_secure_port(address, credentials)
        if credentials
        else server.add_insecure_port(address)
    )
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def rest_address(ranker):
    http_status = {"NOT_FOUND": 404, "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 412}

    def text(value) -> bytes:
        return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.respond(None)

        def do_POST(self):
            self.respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def respond(self, body):
            code, answer = 200, None
            path, _, _ = self.path.partition(":")
            parts = path.removeprefix("/v1/models/").split("/versions/")
            version = int(parts[1]) if len(parts) == 2 else None
            try:
                if body is None:
                    ranker.check(parts[0], version)
                    one = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK"}}
                    answer = {"model_version_status": [one]}
                else:
                    inputs = {n: list(map(text, texts)) for n, texts in body["inputs"].items()}
                    signature = body["signature_name"]
                    outputs = ranker.predict(parts[0], version, signature, inputs)
                    lists = {name: array.tolist() for name, array in outputs.items()}
                    # TensorFlow Serving leaves out the name of a signature's only output.
                    (answer,) = lists.values() if len(lists) == 1 else (lists,)
                    answer = {"outputs": answer}
            except Refused as refused:
                code, answer = http_status[refused.status], {"error": str(refused)}
            raw = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            """Says nothing of clients that did not wait for their answer."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
