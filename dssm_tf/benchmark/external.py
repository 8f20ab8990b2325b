"""Encoders and saved models, which the benchmark does not fit; size and latency of systems."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.evaluation.runs import ScoreFunction
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.load import find_model, load_vector_ranker
from dssm_tf.model.run_files import training_log
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.runtime.vector_ranker import VectorRanker
from dssm_tf.text.training_log import TrainingLog

Encode = Callable[[Sequence[str]], Any]

_TIMED_QUERIES = 50  # number of queries that are scored and timed, one at a time


def saved_training_log(path: Path) -> TrainingLog | None:
    """The training log of a saved model; None if unknown."""
    model = find_model(path)
    return None if model is None else training_log(model.run_files)


def avoid_triton() -> None:
    """Makes PyTorch work without Triton in this process, unless Triton is loaded already.

    Triton and TensorFlow both contain LLVM, and a process that loads both is aborted. Encoders run
    on the processor, where PyTorch does not need Triton.
    """
    sys.modules.setdefault("triton", None)  # type: ignore[arg-type]


def load_encoder(model: str) -> tuple[Encode, float]:
    """Loads a model of sentence-transformers.

    Returns:
        A function from texts to unit vectors, and the size of the model in MB.

    Raises:
        UserError: sentence-transformers is not installed, or the model cannot be loaded.
    """
    avoid_triton()
    try:
        from sentence_transformers import SentenceTransformer

        transformer = SentenceTransformer(model, device="cpu")
    except ModuleNotFoundError as error:
        raise UserError(f"--encoder {model}: {error}; {install_command('encoders')}") from error
    except MemoryError:
        raise  # the machine has too little for a good model
    except Exception as error:  # the library and the network raise almost any type of error
        reason = str(error).split("\n")[0]
        raise UserError(f"--encoder {model} cannot be loaded: {reason}") from error

    def encode(texts: Any) -> Any:
        return transformer.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)

    size = sum(weight.numel() * weight.element_size() for weight in transformer.parameters())
    return encode, size / 1e6


def load_teacher(model: str) -> tuple[Encode, Encode]:
    """Loads a teacher: a trained model, or else a model of sentence-transformers.

    Returns:
        Two functions from texts to unit vectors, for queries and for titles.

    Raises:
        UserError: the model cannot be loaded, or is a trained model without vectors.
    """
    if find_model(Path(model)):
        ranker = load_vector_ranker(model)
        return ranker.encode_queries, ranker.encode_titles
    encode, _ = load_encoder(model)
    return encode, encode


def cosines(encode_queries: Encode, encode_titles: Encode, distinct: Any = None) -> ScoreFunction:
    """Scores by the inner product of unit vectors; repeated calls encode a list of titles once.

    Args:
        encode_queries: maps raw queries to unit vectors `(queries, dimension)`.
        encode_titles: maps raw titles to unit vectors `(titles, dimension)`.
        distinct: maps titles to the distinct titles and the index of each title among them. Only
            distinct titles are scored, so equal titles have equal scores: equal columns of a matrix
            product can differ in the last bit. By default, titles are compared as strings.
    """
    distinct = distinct or partial(np.unique, return_inverse=True)

    @lru_cache(1)
    def encode_distinct(titles: tuple[str, ...]) -> Any:
        distinct_titles, indices = distinct(titles)
        return encode_titles(list(distinct_titles)), indices

    def scores(queries: Sequence[str], titles: Sequence[str]) -> Any:
        vectors, indices = encode_distinct(tuple(titles))
        return (encode_queries(queries) @ vectors.T)[:, indices]

    return scores


def cosine_scorer(ranker: Any) -> ScoreFunction:
    """The scores of a trained model without its prior; the unchanged scores of other rankers."""
    if isinstance(ranker, VectorRanker):
        distinct = ranker.vocabulary.rules.distinct
        return cosines(ranker.encode_queries, ranker.encode_titles, distinct)
    without_prior = isinstance(ranker, TrainedRanker)
    scores: ScoreFunction = ranker.similarity_matrix if without_prior else ranker.score_matrix
    return scores


def size_mb(directory: Path) -> float:
    """Size in MB of the files that scoring needs, without training logs."""
    files = (path for path in directory.rglob("*") if path.is_file())
    needed = (path for path in files if "logs" not in path.relative_to(directory).parts)
    return sum(path.stat().st_size for path in needed) / 1e6


def latency_us(scores: ScoreFunction, task: RankingTask) -> float:
    """The median time in microseconds to score one query; its titles are encoded before."""
    rows = np.linspace(0, len(task.queries) - 1, min(_TIMED_QUERIES, len(task.queries))).astype(int)
    latencies = []
    for row in rows:
        judged = task.judged.filter(pl.col("query") == row)["title"]
        titles = task.titles if task.ranks_corpus else tuple(task.titles[i] for i in judged)
        scores([""], titles)  # encodes the titles
        started = time.perf_counter()
        scores([task.queries[row]], titles)
        latencies.append(time.perf_counter() - started)
    return 1e6 * float(np.median(latencies))
