"""A gRPC client of a served ranker, without TensorFlow.

    with Client("127.0.0.1:8500", "dssm") as client:
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
    # Limits memory; large enough for a batch of 4,096 vectors of 1,024 numbers.
    ("grpc.max_receive_message_length", 16 << 20),
    # A model server is in the local network, so the environment's proxies do not apply.
    ("grpc.enable_http_proxy", 0),
    # If a name has several addresses (`dns:///NAME:PORT`), all are used.
    ("grpc.lb_policy_name", "round_robin"),
    # A new client does not reuse the connection state of an earlier one.
    ("grpc.use_local_subchannel_pool", 1),
    # Reconnects within a second after a restart; by default gRPC waits up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
_REMEDIES = {
    "UNAVAILABLE": "Check that a model server listens there (usual port: 8500).",
    "DEADLINE_EXCEEDED": "Allow a longer timeout, or set a smaller batch_size.",
    "NOT_FOUND": "Name a model that the server has, and a version it has loaded.",
    "INVALID_ARGUMENT": "Set batch_size to the server's limit, or less.",
    "RESOURCE_EXHAUSTED": "Try again later, or set a smaller batch_size.",
    "UNIMPLEMENTED": "The server at this address is not a model server: check the port.",
    "FAILED_PRECONDITION": "Serve a model that `dssm export` wrote.",
    "INVALID_RESPONSE": "Serve a model that `dssm export` wrote.",
}


class ServingError(Exception):
    """A failed request to a model server.

    The message has the request, the status with its details, and a remedy, in one line.

    Args:
        call: the request, such as `score of model dssm at 127.0.0.1:8500`.
        status: name of the gRPC status, such as `UNAVAILABLE`; `INVALID_RESPONSE` if the response
            is not that of a ranker.
        details: message of the server or of the network.
    """

    def __init__(self, call: str, status: str, details: str) -> None:
        self.status = status
        details = " ".join(details.split())[:300].rstrip(".")
        remedy = _REMEDIES.get(status, "See the server's log.")
        super().__init__(f"{call}: {status}: {details}. {remedy}")


@dataclass
class Client:
    """Scores and vectors from a model served by `dssm serve` or TensorFlow Serving.

    Threads may share a client. It connects at the first request. As a context manager, it closes
    the connection at the end.

    Args:
        host: `HOST:PORT`, or any target that gRPC can resolve, such as `dns:///ranker:8500`. The
            default port of gRPC is 443.
        model: name of the served model.
        timeout: seconds per request.
        batch_size: texts per request; larger calls are split.
        credentials: credentials of the connection, such as `grpc.ssl_channel_credentials()` for
            TLS. Without them, nothing is encrypted.

    Raises:
        ServingError: a request fails; every method that sends one raises it.
        ValueError: the arguments are invalid for every server.
    """

    host: str
    model: str
    _: KW_ONLY
    timeout: float = 10.0
    batch_size: int = 256
    credentials: grpc.ChannelCredentials | None = None

    def __post_init__(self) -> None:
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size!r}; expected a whole number above 0.")
        if not isinstance(self.timeout, int | float) or not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout!r}; expected seconds, above 0.")
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
            queries: one query per title, or a single query for all titles.
            titles: titles, `(n,)`.

        Returns:
            float32 `(n,)`; higher is better.
        """
        _check_list("titles", titles)
        # A single query is repeated: a server with batching rejects inputs of unequal length.
        queries = [queries] * len(titles) if isinstance(queries, str) else queries
        _check_list("queries", queries)
        if len(queries) != len(titles):
            raise ValueError(
                f"queries has {len(queries)} texts and titles {len(titles)}; expected the same "
                "number of both, or one query as a str."
            )
        return self._request("score", queries=queries, titles=titles)

    def encode(self, side: str, texts: Sequence[str]) -> np.ndarray:
        """Encodes texts as semantic vectors, float32 `(n, d + 1)`; `(0, 0)` for no texts.

        The inner product of the vectors of a query and a title is the score. Without the last
        number, they are unit vectors, whose inner product is the cosine.

        Args:
            side: `query` or `title`.
            texts: texts, `(n,)`.
        """
        if side not in ("query", "title"):
            raise ValueError(f"side is {side!r:.60}; expected query or title.")
        name = "queries" if side == "query" else "titles"
        _check_list(name, texts)
        return self._request(f"encode_{side}", **{name: texts})

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, signature: str, **inputs: Sequence[str]) -> np.ndarray:
        """Sends the texts in batches; returns a score or a vector per text."""
        output, dimensions = ("scores", 1) if signature == "score" else ("embeddings", 2)
        for name, texts in inputs.items():
            for index, text in enumerate(texts):
                if not isinstance(text, str):
                    raise ValueError(f"{name}[{index}] is {text!r:.60}; expected a str.")
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
                response = self._predict(request, timeout=self.timeout)
                tensor = response.outputs[output]  # an empty tensor if it is missing
                arrays.append(messages.decode_floats(tensor, end - start, dimensions))
            return np.concatenate(arrays)
        except grpc.RpcError as error:
            status, details = error.code().name, error.details() or ""
        except ValueError as error:
            status, details = "INVALID_RESPONSE", f"{output}: {error}"
        raise ServingError(f"{signature} of model {self.model} at {self.host}", status, details)


def _check_list(name: str, texts: object) -> None:
    """Raises ValueError unless `texts` is a list, or is like one."""
    if isinstance(texts, str):
        raise ValueError(f"{name} is a single str; expected a list of str.")
    if not hasattr(texts, "__len__") or not hasattr(texts, "__getitem__"):
        raise ValueError(f"{name} is {texts!r:.60}; expected a list of str.")
