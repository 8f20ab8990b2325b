"""The gRPC client of a served ranker; needs no TensorFlow.

    with Client("127.0.0.1:8500", "lstm") as client:
        for title, score, position in client.rank("wizard of oz", titles):
            ...

It needs grpcio, protobuf and numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np

from serving import messages
from serving.predict_pb2 import (
    GetModelStatusRequest,
    GetModelStatusResponse,
    ModelSpec,
    ModelVersionStatus,
    PredictRequest,
    PredictResponse,
)

_STATES = {number: name for name, number in ModelVersionStatus.State.items()}
_OPTIONS = [
    # No answer fills the memory: this is a batch of 4,096 vectors of 1,024 numbers.
    ("grpc.max_receive_message_length", 16 << 20),
    # A model server is a neighbour: the environment's proxies are for the world outside.
    ("grpc.enable_http_proxy", 0),
    # Of several addresses of one name (`dns:///NAME:PORT`), all are used.
    ("grpc.lb_policy_name", "round_robin"),
    # A new client starts afresh, whatever an earlier one found at the same address.
    ("grpc.use_local_subchannel_pool", 1),
    # A server that is back is found within a second; gRPC itself would wait up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_REMEDIES = {
    "UNAVAILABLE": "Check that a model server listens there (usual port: 8500).",
    "DEADLINE_EXCEEDED": "Allow a longer timeout, or set a smaller batch_size.",
    "NOT_FOUND": "Name a model that the server has, and a version it has loaded.",
    "INVALID_ARGUMENT": "Set batch_size to what the server takes at once, or less.",
    "RESOURCE_EXHAUSTED": "Ask again later, or set a smaller batch_size.",
    "UNIMPLEMENTED": "This address answers, but not as a model server: check the port.",
    "FAILED_PRECONDITION": "Serve a model that `dssm export` wrote.",
    "BAD_ANSWER": "Serve a model that `dssm export` wrote.",
}


class ServingError(Exception):
    """A request that a model server did not answer.

    The message says what was asked of whom, what came back and what to do about it, in one line.

    Args:
        call: what was asked of whom, e.g. `score of model lstm at 127.0.0.1:8500`.
        status: the name of the gRPC status, e.g. `UNAVAILABLE`; `BAD_ANSWER` for an answer
            that is not a ranker's.
        details: the server's or the network's own words.
    """

    def __init__(self, call: str, status: str, details: str) -> None:
        self.status = status
        details = " ".join(details.split())[:300].rstrip(".")
        remedy = _REMEDIES.get(status, "The server's log says more.")
        super().__init__(f"{call}: {status}: {details}. {remedy}")


class RankedTitle(NamedTuple):
    """A title, its score, and its place in what was asked."""

    title: str
    score: float
    position: int


class VersionStatus(NamedTuple):
    """A version of the served model; it answers when its state is `AVAILABLE`."""

    version: int
    state: str
    error: str


class Client:
    """Scores, vectors and rankings from a model served by `dssm serve` or TensorFlow Serving.

    Threads may share a client. It connects at the first request, and is a context manager that
    closes the connection.

    Args:
        host: `HOST:PORT`, or any target that gRPC can resolve, as `dns:///ranker:8500`. Without
            a port gRPC asks at 443.
        model: the served model's name.
        timeout: seconds a request may take.
        batch_size: texts a request; larger calls are split.
        credentials: of the connection, such as `grpc.ssl_channel_credentials()` for TLS; without,
            nothing is encrypted.

    Raises:
        ServingError: from every method that asks the server.
        ValueError: arguments that no server could answer.
    """

    def __init__(
        self,
        host: str,
        model: str,
        *,
        timeout: float = 10.0,
        batch_size: int = 256,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        self.host, self.timeout, self.batch_size = host, timeout, batch_size
        self._spec = ModelSpec(name=model)
        self._channel = (
            grpc.insecure_channel(host, _OPTIONS)
            if credentials is None
            else grpc.secure_channel(host, credentials, _OPTIONS)
        )
        self._predict = self._channel.unary_unary(
            messages.PREDICT, PredictRequest.SerializeToString, PredictResponse.FromString
        )
        self._status = self._channel.unary_unary(
            messages.GET_MODEL_STATUS,
            GetModelStatusRequest.SerializeToString,
            GetModelStatusResponse.FromString,
        )

    def score(self, queries: str | Sequence[str], titles: Sequence[str]) -> np.ndarray:
        """Scores pairs of a query and a title.

        Args:
            queries: one for each title, or a single one for all of them.
            titles: `(n,)`.

        Returns:
            float32 `(n,)`; higher is better.
        """
        # A single query is repeated here: a server that batches refuses inputs of unequal length.
        queries = [queries] * len(titles) if isinstance(queries, str) else queries
        if len(queries) != len(titles):
            raise ValueError(
                f"queries holds {len(queries)} texts and titles {len(titles)}; expected the same "
                "number of both, or one query as a str."
            )
        return self._ask("score", {"queries": queries, "titles": titles}, "scores", 1)

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> np.ndarray:
        """Semantic vectors of queries, float32 `(n, d)`; `(0, 0)` for none.

        Args:
            queries: `(n,)`.
            prior: False for unit vectors, whose inner products are cosines; True for vectors with
                one more dimension, whose inner products with those of titles are the scores.
        """
        vectors = self._ask("encode_query", {"queries": queries}, "embeddings", 2)
        return vectors if prior else vectors[:, :-1]

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> np.ndarray:
        """Semantic vectors of titles; see `encode_queries`."""
        vectors = self._ask("encode_title", {"titles": titles}, "embeddings", 2)
        return vectors if prior else vectors[:, :-1]

    def rank(self, query: str, titles: Sequence[str]) -> list[RankedTitle]:
        """Titles from best to worst; equal scores keep the order of `titles`."""
        scores = self.score(query, titles)
        order = np.argsort(-scores, kind="stable").tolist()
        return [RankedTitle(titles[row], float(scores[row]), row) for row in order]

    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows."""
        request = GetModelStatusRequest(model_spec=self._spec)
        answer = self._call("status", self._status, request)
        return [
            VersionStatus(one.version, _STATES.get(one.state, "UNKNOWN"), one.status.error_message)
            for one in answer.model_version_status
        ]

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(
        self, signature: str, inputs: Mapping[str, Sequence[str]], output: str, dimensions: int
    ) -> np.ndarray:
        """Asks in batches; joins the answers."""
        for name, texts in inputs.items():
            if isinstance(texts, str):
                raise ValueError(f"{name} is one str; expected a list of str.")
        if not texts:
            return np.zeros((0, 0)[:dimensions], np.float32)
        tensors = []
        for start in range(0, len(texts), self.batch_size):
            request = PredictRequest(model_spec=self._spec)
            request.model_spec.signature_name = signature
            for name, texts in inputs.items():
                batch = texts[start : start + self.batch_size]
                request.inputs[name].CopyFrom(messages.encode_texts(batch))
            answer = self._call(signature, self._predict, request)
            tensors.append((answer.outputs[output], len(batch)))  # an empty one if there is none
        try:
            return np.concatenate(
                [messages.decode_floats(one, rows, dimensions) for one, rows in tensors]
            )
        except ValueError as error:
            raise self._error(signature, "BAD_ANSWER", f"{output}: {error}") from error

    def _call(self, name: str, call: Callable[..., Any], request: Any) -> Any:
        try:
            return call(request, timeout=self.timeout)
        except grpc.RpcError as error:
            raise self._error(name, error.code().name, error.details() or "") from error

    def _error(self, call: str, status: str, details: str) -> ServingError:
        return ServingError(f"{call} of model {self._spec.name} at {self.host}", status, details)
