"""What every client of a served ranker does, whatever the protocol it speaks."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

# The status names are gRPC's; the REST client translates HTTP's into them.
_REMEDIES = {
    "UNAVAILABLE": "Check that a model server listens there (usual ports: gRPC 8500, REST 8501).",
    "DEADLINE_EXCEEDED": "Allow a longer timeout, or ask for less at once.",
    "NOT_FOUND": "Use a name of the server's models.config, and a version it has loaded.",
    "FAILED_PRECONDITION": "Serve a model written by `dssm export`.",
    "INVALID_ARGUMENT": (
        "Serve a model written by `dssm export`; if a batch was too large, set batch_size to "
        "the server's max_batch_size or less."
    ),
    "RESOURCE_EXHAUSTED": "Set a smaller batch_size.",
    "UNIMPLEMENTED": "This address answers, but is not TensorFlow Serving's: check the port.",
    "BAD_ANSWER": "Serve a model written by `dssm export`.",
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
        self.call = call
        self.status = status
        self.details = " ".join(details.split())[:300].rstrip(".")
        remedy = _REMEDIES.get(status, "The server's log says more.")
        if status == "UNAVAILABLE" and "queue" in details:
            remedy = "The server is overloaded: ask again later, or raise max_enqueued_batches."
        super().__init__(f"{call}: {status}: {self.details}. {remedy}")


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


class ModelClient(ABC):
    """Scores, vectors and rankings from a served model; subclasses speak gRPC or REST.

    A client may be shared by threads and is a context manager that closes its connection.

    Args:
        host: the server's address, `HOST:PORT`.
        model: the served model's name.
        version: the version to ask; the server's newest by default.
        timeout: seconds a method may take, all its requests together.
        batch_size: texts a request; larger calls are split. At most the server's
            `max_batch_size` where that batches.

    Raises:
        ServingError: from every method that asks the server.
        ValueError: arguments that no server could answer.
    """

    def __init__(
        self,
        host: str,
        model: str,
        *,
        version: int | None = None,
        timeout: float = 10.0,
        batch_size: int = 256,
    ) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}; expected seconds above 0.")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; expected 1 or more.")
        if not model:
            raise ValueError("model is empty; expected the served model's name.")
        self.host = host
        self.model = model
        self.version = version
        self.timeout = timeout
        self.batch_size = batch_size

    def score(self, queries: str | Sequence[str], titles: Sequence[str]) -> np.ndarray:
        """Scores pairs of a query and a title.

        Args:
            queries: one for each title, or a single one for all of them.
            titles: `(n,)`.

        Returns:
            float32 `(n,)`; higher is better.
        """
        titles = _texts("titles", titles)
        # A single query is repeated here: a server that batches refuses inputs of unequal length.
        queries = [queries] * len(titles) if isinstance(queries, str) else queries
        queries = _texts("queries", queries)
        if len(queries) != len(titles):
            raise ValueError(
                f"queries holds {len(queries)} texts and titles {len(titles)}; expected as many "
                "of both, or one query as a str."
            )
        return self._ask("score", {"queries": queries, "titles": titles}, "scores", 1)

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """Semantic vectors of queries, float32 `(n, d)`; `(0, 0)` for none."""
        inputs = {"queries": _texts("queries", queries)}
        return self._ask("encode_query", inputs, "embeddings", 2)

    def encode_titles(self, titles: Sequence[str]) -> np.ndarray:
        """Semantic vectors of titles, float32 `(n, d)`; `(0, 0)` for none."""
        inputs = {"titles": _texts("titles", titles)}
        return self._ask("encode_title", inputs, "embeddings", 2)

    def rank(self, query: str, titles: Sequence[str]) -> list[RankedTitle]:
        """Titles from best to worst; equal scores keep the order of `titles`."""
        if not isinstance(query, str):
            raise ValueError(f"query is {type(query).__name__}; expected a str.")
        titles = _texts("titles", titles)
        scores = self.score(query, titles)
        order = np.argsort(-scores, kind="stable").tolist()
        return [RankedTitle(titles[place], float(scores[place]), place) for place in order]

    @abstractmethod
    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection."""

    @abstractmethod
    def _predict(
        self, signature: str, inputs: Mapping[str, Sequence[str]], output: str, timeout: float
    ) -> Any:
        """Asks once; returns the output named so, as something NumPy makes an array of."""

    def _ask(
        self, signature: str, inputs: Mapping[str, list[str]], output: str, rank: int
    ) -> np.ndarray:
        """Asks in batches within the timeout; joins and checks the answers."""
        total = len(next(iter(inputs.values())))
        deadline = time.monotonic() + self.timeout
        parts = [np.zeros((0,) * rank, np.float32)] if total == 0 else []
        for start in range(0, total, self.batch_size):
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._error(
                    signature,
                    "DEADLINE_EXCEEDED",
                    f"{start} of {total} texts done after {self.timeout:g} s",
                )
            end = min(start + self.batch_size, total)
            batch = {name: texts[start:end] for name, texts in inputs.items()}
            answer = self._predict(signature, batch, output, left)
            try:
                part = np.asarray(answer, np.float32)
            except (TypeError, ValueError) as error:
                raise self._error(signature, "BAD_ANSWER", f"{output}: {error}") from error
            if part.ndim != rank or len(part) != end - start:
                raise self._error(
                    signature,
                    "BAD_ANSWER",
                    f"{output} has the shape {part.shape} for {end - start} texts",
                )
            parts.append(part)
        return np.concatenate(parts)

    def _error(self, call: str, status: str, details: str) -> ServingError:
        version = "" if self.version is None else f" version {self.version}"
        return ServingError(
            f"{call} of model {self.model}{version} at {self.host}", status, details
        )

    def __enter__(self) -> ModelClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{index}] is {type(text).__name__}; expected str.")
    return texts
