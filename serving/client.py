"""The gRPC client of a served ranker; needs no TensorFlow.

    with Client("127.0.0.1:8500", "lstm") as client:
        scores = client.score("wizard of oz", titles)

It needs grpcio, protobuf and numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import grpc
import numpy as np

from serving import messages
from serving.predict_pb2 import PredictRequest, PredictResponse

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


@dataclass
class Client:
    """Scores and vectors from a model served by `dssm serve` or TensorFlow Serving.

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

    host: str
    model: str
    _: KW_ONLY
    timeout: float = 10.0
    batch_size: int = 256
    credentials: grpc.ChannelCredentials | None = None

    def __post_init__(self) -> None:
        if self.credentials is None:
            self._channel = grpc.insecure_channel(self.host, _OPTIONS)
        else:
            self._channel = grpc.secure_channel(self.host, self.credentials, _OPTIONS)
        self._predict = self._channel.unary_unary(
            messages.PREDICT, PredictRequest.SerializeToString, PredictResponse.FromString
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
        return self._ask("score", queries=queries, titles=titles)

    def encode(self, side: str, texts: Sequence[str]) -> np.ndarray:
        """Semantic vectors, float32 `(n, d + 1)`; `(0, 0)` for no texts.

        The inner product of a query's and a title's is the score. Without the last number they are
        unit vectors, whose inner products are cosines.

        Args:
            side: `query` or `title`.
            texts: `(n,)`.
        """
        return self._ask(f"encode_{side}", **{"queries" if side == "query" else "titles": texts})

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, signature: str, **inputs: Sequence[str]) -> np.ndarray:
        """Asks in batches; joins the answers: a score or a vector for each text."""
        output, dimensions = ("scores", 1) if signature == "score" else ("embeddings", 2)
        for name, texts in inputs.items():
            if isinstance(texts, str):
                raise ValueError(f"{name} is one str; expected a list of str.")
        (count,) = {len(texts) for texts in inputs.values()}
        if not count:
            return np.zeros(0 if dimensions == 1 else (0, 0), np.float32)
        arrays = []
        try:
            for start in range(0, count, self.batch_size):
                end = min(start + self.batch_size, count)
                request = PredictRequest(
                    model_spec={"name": self.model, "signature_name": signature},
                    inputs={
                        name: messages.encode_texts(texts[start:end])
                        for name, texts in inputs.items()
                    },
                )
                answer = self._predict(request, timeout=self.timeout)
                tensor = answer.outputs[output]  # empty if there is none
                arrays.append(messages.decode_floats(tensor, end - start, dimensions))
            return np.concatenate(arrays)
        except grpc.RpcError as error:
            status, details = error.code().name, error.details() or ""
        except ValueError as error:
            status, details = "BAD_ANSWER", f"{output}: {error}"
        raise ServingError(f"{signature} of model {self.model} at {self.host}", status, details)
