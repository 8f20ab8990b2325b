"""Systems that are not fitted here: saved models and baselines, vectors, encoders."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dssm_tf.baselines.base import Baseline
from dssm_tf.common.arrays import map_array
from dssm_tf.common.errors import UserError, install
from dssm_tf.evaluation.by_cosine import ByCosine, without_prior
from dssm_tf.evaluation.evaluation import about_vocabulary
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.evaluation.runs import Scores, by_ranker, make_run, trec_run
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.export.load import find_model, load
from dssm_tf.model.run_files import QUERY_IDS, were_learned
from dssm_tf.tables.trec import read_run

_UNIT = 1e-3  # how far the length of a unit vector may be from 1
_TIMED = 50  # queries that are scored one by one


class External(NamedTuple):
    """A system that is measured as it is.

    Attributes:
        name: of the row.
        kind: `model`, of a run, an export or a compact model, `baseline`, `embeddings`, ...
        run: makes its run.
        about: what the table has to say about it.
        known: `(queries,)`, whether the log it learned from holds a query; None if unknown.
    """

    name: str
    kind: str
    run: Callable[[], pl.DataFrame]
    about: dict[str, Any]
    known: NDArray[np.bool_] | None = None


def external(
    task: RankingTask,
    models: Mapping[str, Path],
    runs: Mapping[str, Path],
    embeddings: Mapping[str, tuple[Path, Path]],
) -> list[External]:
    """Reads what is measured as it is, before anything slow.

    Raises:
        UserError: a file or a directory is missing, damaged or does not fit.
    """
    found = [_saved_system(name, path, task) for name, path in models.items()]
    for name, path in runs.items():
        run, notes = trec_run(name, read_run(path), task)
        about: dict[str, Any] = {"source": str(path), "notes": notes}
        found.append(External(name, "run", run.clone, about))
    for name, paths in embeddings.items():
        scores = vectors(name, paths, task.query_ids, task.doc_ids)
        size = sum(path.stat().st_size for path in paths) / 1e6
        about = {"source": ", ".join(map(str, paths)), "megabytes": size}
        found.append(External(name, "embeddings", partial(make_run, name, scores, task), about))
    return found


def learned(queries: Sequence[str], path: Path) -> NDArray[np.bool_] | None:
    """Whether a saved model learned from queries, `(queries,)`; None if nobody knows."""
    place = find_model(path)
    if place is None or not (place.run_files / QUERY_IDS).exists():
        return None
    return were_learned(queries, place.run_files)


def _saved_system(name: str, path: Path, task: RankingTask) -> External:
    """A model or a baseline as it was saved: a model by its cosine, without its prior."""
    ranker: Any = load(path, name)
    about: dict[str, Any] = {"source": str(path), "megabytes": megabytes(path), "notes": []}
    kind = "baseline" if isinstance(ranker, Baseline) else "model"
    if kind == "model":
        about |= about_vocabulary(ranker.vocabulary.unknown_share(task.queries))
        if hasattr(ranker, "model"):
            about["parameters"] = int(ranker.model.count_params())
        ranker = without_prior(ranker)
    known = learned(task.queries, path)
    if known is None or known.any():  # a log without a judged query holds no judged click
        log = "an unknown log" if known is None else f"a log with {known.sum():,} of them"
        about["notes"] += [f"was trained elsewhere, on {log}: that may include judged clicks"]
    about["microseconds_per_query"] = microseconds(ranker, task)
    run = partial(make_run, name, by_ranker(ranker, task), task)
    return External(name, kind, run, about, known)


def vectors(
    name: str, paths: tuple[Path, Path], query_ids: Sequence[str], doc_ids: Sequence[str]
) -> Scores:
    """Cosines of vectors of any model; the prior that `dssm embed` adds is left out.

    Rows of an `.npy` file are those of `queries.tsv` and `titles.tsv`; a Parquet file has the
    columns id and vector. Ids that come twice must be those of `titles.tsv` in the same order.

    Raises:
        UserError: a file is not a matrix of finite numbers, or rows or dimensions do not fit.
    """
    queries, titles = _vectors(paths[0], query_ids), _vectors(paths[1], doc_ids)
    if queries.shape[1] != titles.shape[1]:
        raise UserError(
            f"--embeddings {name}: {paths[0]} has {queries.shape[1]} dimensions and {paths[1]} "
            f"{titles.shape[1]}; both must come from one model."
        )
    lengths = np.linalg.norm(np.concatenate([queries, titles])[:, :-1], axis=1)
    if (queries[:, -1] == 1).all() and ((abs(lengths - 1) < _UNIT) | (lengths == 0)).all():
        queries, titles = queries[:, :-1], titles[:, :-1]
    return inner_products(_unit(queries), _unit(titles))


def inner_products(queries: NDArray[np.floating[Any]], titles: NDArray[np.floating[Any]]) -> Scores:
    """Scores of vectors in the order of the task; a zero vector scores 0 everywhere."""
    return lambda rows, columns: queries[rows] @ (titles if columns is None else titles[columns]).T


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _vectors(path: Path, ids: Sequence[str]) -> NDArray[np.float32]:
    """The rows of the given ids, in their order."""
    if path.suffix == ".parquet":
        table = pl.read_parquet(path, columns=["id", "vector"])
        given, rows = table["id"].cast(pl.String).to_list(), np.array(table["vector"].to_list())
    else:
        given, rows = list(ids), map_array(path, "Write it with numpy.save.")
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or not np.isfinite(rows).all():
        raise UserError(
            f"{path} holds {rows.dtype} of the shape {rows.shape}; expected finite numbers "
            "(texts, dimension)."
        )
    place = {one: row for row, one in enumerate(given)}
    missing = [one for one in ids if one not in place]
    if missing or len(given) != len(rows) or (given != list(ids) and len(place) < len(given)):
        lack = f", which lack {missing[0]!r}" if missing else ""
        raise UserError(
            f"{path} has {len(rows):,} rows and {len(place):,} different ids{lack}; expected a row "
            f"for each of {len(ids):,} texts, or a row with an id of its own in Parquet."
        )
    order = range(len(rows)) if given == list(ids) else [place[one] for one in ids]
    return rows[list(order)].astype(np.float32)


def load_encoder(name: str, model: str) -> tuple[ByCosine, dict[str, Any]]:
    """What sentence-transformers loads, ranked by the cosine, and its costs.

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

    weights = list(transformer.parameters())
    size = sum(one.numel() * one.element_size() for one in weights)
    costs = {"parameters": sum(one.numel() for one in weights), "megabytes": size / 1e6}
    return ByCosine(name, encode, encode), costs


def megabytes(directory: Path) -> float:
    """Size on disk of what scoring needs; training logs are not part of it."""
    files = (one for one in directory.rglob("*") if one.is_file())
    kept = (one for one in files if "logs" not in one.relative_to(directory).parts)
    return sum(one.stat().st_size for one in kept) / 1e6


def microseconds(ranker: Ranker, task: RankingTask) -> float:
    """The median time to score one query against its titles, which another query had encoded."""
    scores: Callable[..., Any] = by_ranker(ranker, task)
    rows = np.linspace(0, len(task.queries) - 1, min(_TIMED, len(task.queries))).astype(np.int64)
    taken = []
    for other, row in zip(np.roll(rows, 1), rows, strict=True):
        own = task.judged.filter(pl.col("query") == row)["title"].to_numpy()
        columns = None if task.whole_corpus else own
        scores(np.array([other]), columns)
        started = time.perf_counter()
        scores(np.array([row]), columns)
        taken.append(time.perf_counter() - started)
    return 1e6 * float(np.median(taken))
