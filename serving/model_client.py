"""What every client of a served ranker does, whatever the protocol it speaks."""

from __future__ import annotations

import math
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
    "REDIRECTED": "Queries go to the address that was given and no other; give the right one.",
    "BAD_ANSWER": "Serve a model written by `dssm export`.",
}


LONGEST_VECTOR = 8192
"""Numbers of a vector that a client reads at most, so that no answer fills the memory."""

_LONGEST_TIMEOUT = 86_400.0  # seconds


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
        if not isinstance(timeout, (int, float)) or not 0 < timeout <= _LONGEST_TIMEOUT:
            raise ValueError(f"timeout is {timeout!r}; expected seconds above 0, a day at most.")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; expected 1 or more.")
        if version is not None and (not isinstance(version, int) or not 0 <= version < 1 << 63):
            raise ValueError(f"version is {version!r}; expected a whole number, such as 1.")
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

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> np.ndarray:
        """Semantic vectors of queries, float32 `(n, d)`; `(0, 0)` for none.

        Args:
            queries: `(n,)`.
            prior: False for unit vectors, whose inner products are cosines; True for vectors with
                one more dimension, whose inner products with those of titles are the scores.
        """
        signature = "encode_query_with_prior" if prior else "encode_query"
        return self._ask(signature, {"queries": _texts("queries", queries)}, "embeddings", 2)

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> np.ndarray:
        """Semantic vectors of titles; see `encode_queries`."""
        signature = "encode_title_with_prior" if prior else "encode_title"
        return self._ask(signature, {"titles": _texts("titles", titles)}, "embeddings", 2)

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
        self,
        signature: str,
        inputs: Mapping[str, Sequence[str]],
        output: str,
        most: int,
        timeout: float,
    ) -> Any:
        """Asks once; returns the output named so, as something NumPy makes an array of.

        Reads no more than `most` numbers take.
        """

    def _ask(
        self, signature: str, inputs: Mapping[str, list[str]], output: str, rank: int
    ) -> np.ndarray:
        """Asks in batches within the timeout; joins and checks the answers."""
        total = len(next(iter(inputs.values())))
        deadline = time.monotonic() + self.timeout
        parts = [np.zeros((0,) * rank, np.float32)] if total == 0 else []
        width: tuple[int | None, ...] = (None,) * (rank - 1)
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
            most = math.prod(LONGEST_VECTOR if one is None else one for one in width)
            answer = self._predict(signature, batch, output, (end - start) * most, left)
            try:
                parts.append(_numbers(answer, (end - start, *width)))
            except (TypeError, ValueError) as error:
                raise self._error(signature, "BAD_ANSWER", f"{output}: {error}") from error
            width = parts[-1].shape[1:]
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


def _numbers(answer: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """An answer as float32 `shape`, in which None is a width that is not known yet.

    Raises:
        ValueError: it is none.
    """
    found = np.asarray(answer)
    fits = len(shape) == found.ndim and all(
        size > 0 if wanted is None else size == wanted
        for wanted, size in zip(shape, found.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("d" if one is None else str(one) for one in shape)
        raise ValueError(f"the shape is {found.shape}; expected ({wanted})")
    if found.dtype.kind not in "fiu":
        raise ValueError("it holds what is no number")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused
        numbers = found.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError("it holds numbers that are not finite")
    return numbers


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"{name} is one {type(texts).__name__}; expected a list of str.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{index}] is {type(text).__name__}; expected str.")
    return texts
