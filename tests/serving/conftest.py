"""A ranker that can be checked by hand, served by `dssm_tf.server` on the loopback interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dssm_tf.runtime.vector_ranker import Side, VectorRanker
from dssm_tf.server.limits import Limits
from dssm_tf.server.models import ServedModel
from dssm_tf.server.server import Server


class TinyRanker(VectorRanker):
    """Encodes a text as (letters, words), or with the prior as (letters, words, 1).

    Attributes:
        requests: number of texts of each call.
        may_answer: calls wait until this event is set.
        replacement: returned instead of the vectors, if not None.
    """

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.replacement: np.ndarray | None = None

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> np.ndarray:
        self.may_answer.wait(60)
        self.requests.append(len(queries))
        if self.replacement is not None:
            return self.replacement
        rows = [[len(text), len(text.split()), 1][: 2 + prior] for text in queries]
        return np.array(rows, np.float32).reshape(len(rows), 2 + prior)

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> np.ndarray:
        return self.encode_queries(titles, prior)

    def _encode(self, side: Side, texts: Sequence[str]) -> np.ndarray:
        return self.encode_queries(texts)

    def _weighted_priors(self, titles: Sequence[str]) -> np.ndarray:
        return np.ones(len(titles), np.float32)


@pytest.fixture
def ranker() -> Iterator[TinyRanker]:
    ranker = TinyRanker()
    yield ranker
    ranker.may_answer.set()


def served(ranker: Any, port: int = 0, **limits: Any) -> Server:
    """A server of model `tiny`, version 3, with at most eight texts per request."""
    limits = {"texts": 8, **limits}
    return Server([ServedModel("tiny", 3, ranker)], port=port, rest_port=0, limits=Limits(**limits))


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
