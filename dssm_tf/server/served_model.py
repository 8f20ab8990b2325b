"""A served version as a search asks a model: texts to vectors, and what titles score anyway."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.server.models import Version

Vectors = NDArray[np.float32]

_BATCH = 512  # texts encoded at once


class ServedModel:
    """A version that answers, behind the methods of a `SemanticRanker`.

    Args:
        version: which is served.

    Raises:
        UserError: it tells no vectors.
    """

    def __init__(self, version: Version) -> None:
        self.name = version.model
        self._servable = version.servable
        known = version.servable.definition.signature_def
        if missing := [name for name in ("encode_query", "encode_title") if name not in known]:
            raise UserError(
                f"--corpus: model {version.model!r} cannot search, it has no "
                f"{' and no '.join(missing)}; serve one that `dssm export` wrote."
            )
        self.vocabulary = version.servable.vocabulary()
        self.mean_prior = version.servable.mean_prior()

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors float32 `(len(queries), dimension)`; see `SemanticRanker`."""
        return self._encode("encode_query", "queries", queries, prior)

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors float32 `(len(titles), dimension)`; see `SemanticRanker`."""
        return self._encode("encode_title", "titles", titles, prior)

    def weighted_prior(self, titles: Sequence[str]) -> Vectors:
        """What titles score whatever the query, `(len(titles),)`: the score of an empty one."""
        parts = [
            self._servable.run("score", {"queries": [b""], "titles": part})["scores"]
            for _, part in _batches(titles)
        ]
        return _in_order(parts, titles)

    def _encode(self, signature: str, name: str, texts: Sequence[str], prior: bool) -> Vectors:
        signature += "_with_prior" if prior else ""
        parts = [
            self._servable.run(signature, {name: part})["embeddings"] for _, part in _batches(texts)
        ]
        return _in_order(parts, texts)


def _order(texts: Sequence[str]) -> list[int]:
    """Like lengths together: a batch is as wide as its longest text."""
    return sorted(range(len(texts)), key=lambda place: len(texts[place]))


def _batches(texts: Sequence[str]) -> list[tuple[int, list[bytes]]]:
    raw = [texts[place].encode("utf-8", "surrogatepass") for place in _order(texts)]
    return [(start, raw[start : start + _BATCH]) for start in range(0, max(len(raw), 1), _BATCH)]


def _in_order(parts: Sequence[Vectors], texts: Sequence[str]) -> Vectors:
    sorted_rows = np.concatenate(parts)
    rows = np.empty_like(sorted_rows)
    rows[_order(texts)] = sorted_rows
    return rows
