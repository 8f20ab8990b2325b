"""Systems that are not fitted here: vectors, encoders, and what is known of saved models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError, install
from dssm_tf.evaluation.runs import Scores
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.load import find_model, load_model
from dssm_tf.model.run_files import QUERY_IDS, were_learned
from dssm_tf.runtime.vector_ranker import VectorRanker

Encode = Callable[[Sequence[str]], Any]

_TIMED = 50  # queries that are scored one by one


def learned(queries: Sequence[str], path: Path) -> NDArray[np.bool_] | None:
    """Whether a saved model learned from queries, `(queries,)`; None if nobody knows."""
    place = find_model(path)
    if place is None or not (place.run_files / QUERY_IDS).exists():
        return None
    return were_learned(queries, place.run_files)


def load_encoder(model: str) -> tuple[Encode, float]:
    """What sentence-transformers loads: texts to unit vectors, and its megabytes.

    Raises:
        UserError: it cannot be loaded.
    """
    try:
        from sentence_transformers import SentenceTransformer

        transformer = SentenceTransformer(model, device="cpu")
    except ModuleNotFoundError as error:
        raise UserError(f"--encoder {model}: {error}; {install('encoders')}") from error
    except Exception as error:  # the library, its parts and the network raise almost any kind
        reason = str(error).split("\n")[0]
        raise UserError(f"--encoder {model} cannot be loaded: {reason}") from error

    def encode(texts: Any) -> Any:
        return transformer.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    size = sum(one.numel() * one.element_size() for one in transformer.parameters())
    return encode, size / 1e6


def load_teacher(model: str) -> tuple[Encode, Encode]:
    """Queries to unit vectors, and titles: of a trained model, else of sentence-transformers.

    Raises:
        UserError: it cannot be loaded.
    """
    if find_model(Path(model)):
        ranker = load_model(model)
        return ranker.encode_queries, ranker.encode_titles
    encode, _ = load_encoder(model)
    return encode, encode


def cosines(queries: Encode, titles: Encode, distinct: Any = None) -> Scores:
    """Scores by the inner product of unit vectors; a list of titles is encoded once.

    Args:
        queries: raw queries to unit vectors `(queries, dimension)`.
        titles: the same for titles.
        distinct: titles to those that the model tells apart, and the place of each among them: a
            product of matrices can differ in the last bit between equal columns. By default all
            different texts.
    """
    distinct = distinct or partial(np.unique, return_inverse=True)

    @lru_cache(1)
    def encoded(texts: tuple[str, ...]) -> Any:
        different, place = distinct(texts)
        return titles(list(different)), place

    def scores(asked: Sequence[str], texts: Sequence[str]) -> Any:
        vectors, place = encoded(tuple(texts))
        return (queries(asked) @ vectors.T)[:, place]

    return scores


def without_prior(ranker: Any) -> Scores:
    """A trained model, in whichever form, by its cosine alone: what it makes of the texts."""
    if isinstance(ranker, VectorRanker):
        distinct = ranker.vocabulary.rules.distinct
        return cosines(ranker.encode_queries, ranker.encode_titles, distinct)
    scores: Scores = ranker.score_matrix
    return scores


def megabytes(directory: Path) -> float:
    """Size on disk of what scoring needs; training logs are not part of it."""
    files = (one for one in directory.rglob("*") if one.is_file())
    kept = (one for one in files if "logs" not in one.relative_to(directory).parts)
    return sum(one.stat().st_size for one in kept) / 1e6


def microseconds(scores: Scores, task: RankingTask) -> float:
    """The median time to score one query against its titles, which are already encoded."""
    rows = np.linspace(0, len(task.queries) - 1, min(_TIMED, len(task.queries))).astype(int)
    taken = []
    for row in rows:
        own = task.judged.filter(pl.col("query") == row)["title"]
        titles = task.titles if task.whole_corpus else tuple(task.titles[one] for one in own)
        scores([""], titles)
        started = time.perf_counter()
        scores([task.queries[row]], titles)
        taken.append(time.perf_counter() - started)
    return 1e6 * float(np.median(taken))
