"""A ranker small enough to check by hand, served by `dssm_tf.server` on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssm_tf.server.models import Model
from dssm_tf.server.server import Server
from dssm_tf.server.service import Limits
from dssm_tf.server.sources import Source
from serving.predict_pb2 import SignatureDefMap

SIGNATURES = {
    "encode_query": ({"queries"}, "embeddings"),
    "encode_title": ({"titles"}, "embeddings"),
    "encode_query_with_prior": ({"queries"}, "embeddings"),
    "encode_title_with_prior": ({"titles"}, "embeddings"),
    "score": ({"queries", "titles"}, "scores"),
}


class TinyRanker:
    """A `Servable`; score: the share of the title's words that the query has; embedding: bytes
    and words, and 7 where the prior would stand.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []
        self.answering = threading.Event()
        self.answering.set()
        self.replaced_output: dict[str, np.ndarray] | None = None
        self.definition = SignatureDefMap()
        for name, (inputs, output) in SIGNATURES.items():
            for one in inputs:
                self.definition.signature_def[name].inputs[one].name = f"{one}:0"
            self.definition.signature_def[name].outputs[output].name = f"{output}:0"

    def run(self, signature: str, inputs: dict[str, list[bytes]]) -> dict[str, np.ndarray]:
        self.answering.wait(60)
        self.requests.append((signature, max(map(len, inputs.values()))))
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


def served(ranker: TinyRanker, port: int = 0, credentials: Any = None) -> Server:
    """A server of model `tiny`, version 3, that takes eight texts a request."""
    model = Model("tiny", Source(Path("tiny"), 3), load=lambda _: ranker)
    return Server(
        [model], port=port, rest_api_port=0, limits=Limits(batch_size=8), credentials=credentials
    )


@pytest.fixture
def server(ranker) -> Iterator[Server]:
    with served(ranker) as server:
        yield server


@pytest.fixture
def grpc_address(server) -> str:
    return server.grpc_address


@pytest.fixture
def rest_address(server) -> str:
    return server.rest_address
