"""Systems that only look scores up: runs and vectors made elsewhere, popularity; also qrels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf.benchmark.moved import have_prior, ids_path, read_ids
from dssm_tf.common.arrays import map_array
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import RunScores, ScoreSource
from dssm_tf.evaluation.ranking import Scores
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.tables.trec import read_qrels, read_run


class Foreign(NamedTuple):
    """A system that was run elsewhere.

    Attributes:
        source: its scores.
        megabytes: of its files; vectors count, a run is no model.
        about: what the table has to say about it.
    """

    source: ScoreSource
    megabytes: float | None
    about: dict[str, object]


def run_source(name: str, path: Path, task: RankingTask) -> Foreign:
    """A TREC run as a system.

    Raises:
        UserError: naming file and line where it is malformed, or the ids that do not fit.
    """
    source = RunScores(name, read_run(path), task)
    return Foreign(source, None, {"source": str(path), "notes": source.notes})


def embedding_source(
    name: str, paths: tuple[Path, Path], query_ids: Sequence[str], doc_ids: Sequence[str]
) -> Foreign:
    """Vectors of any model as a system that ranks by their cosine.

    The prior that `dssm embed` writes as a last number is left out.

    Row `i` belongs to line `i` (from 0 on, the header not counted) of `queries.tsv` and
    `titles.tsv`, as a benchmark or `dssm teach` wrote them, or to the id on line `i` of
    `STEM.ids.txt` beside the file, as `dssm embed` writes it. Ids that come twice there, as those
    of a title in two wordings, must be those of `titles.tsv` in the same order.

    Raises:
        UserError: a file is no matrix of finite numbers, or rows or dimensions do not fit.
    """
    queries = _vectors(paths[0], query_ids, "queries.tsv")
    titles = _vectors(paths[1], doc_ids, "titles.tsv")
    if queries.shape[1] != titles.shape[1]:
        raise UserError(
            f"--embeddings {name}: {paths[0]} has {queries.shape[1]} dimensions and {paths[1]} "
            f"{titles.shape[1]}; both must come from one model."
        )
    size = sum(path.stat().st_size for path in paths) / 1e6
    if have_prior(queries, titles):
        queries, titles = queries[:, :-1], titles[:, :-1]
    return Foreign(
        InnerProducts(_unit(queries), _unit(titles)), size, {"source": ", ".join(map(str, paths))}
    )


def judgments_of_qrels(
    qrels: Path, queries: Path, corpus: Sequence[CorpusTitle], encoding: str = "utf-8"
) -> list[Judgment]:
    """Judgments from TREC qrels, a table of query texts and a corpus.

    Args:
        qrels: `query_id 0 doc_id grade` a line; a negative grade means "not judged", 0 here.
        queries: TSV, CSV, JSONL or Parquet with `query_id` and `query`.
        corpus: the titles.
        encoding: of both files.

    Raises:
        UserError: naming the id, when a query or a doc id of the qrels is in neither table.
    """
    from dssm_tf.tables.texts import open_texts

    texts: dict[str, str] = {}
    with open_texts(queries, "query", encoding=encoding) as found:
        if not found.has_ids:
            raise UserError(f"{queries} has no column 'query_id'; expected query_id and query.")
        for text, query_id in found.rows:
            if texts.setdefault(str(query_id), text) != text:
                raise UserError(f"{queries}: query_id {query_id!r} has two texts.")
    titles = {entry.doc_id: entry.title for entry in corpus}
    judgments = []
    for query_id, grades in read_qrels(qrels, encoding).items():
        if query_id not in texts:
            raise UserError(
                f"{qrels} judges the query {query_id!r}, which {queries} lacks; it has "
                f"{sorted(texts)[:3]}."
            )
        for doc_id, grade in grades.items():
            if doc_id not in titles:
                raise UserError(
                    f"{qrels} judges {doc_id!r} for query {query_id!r}, which the corpus lacks; "
                    f"it has {sorted(titles)[:3]}."
                )
            judgments.append(Judgment(query_id, texts[query_id], doc_id, titles[doc_id], grade))
    return judgments


class InnerProducts:
    """Scores by the inner product of given vectors; a zero vector scores 0 everywhere."""

    def __init__(
        self, queries: NDArray[np.floating[Any]], titles: NDArray[np.floating[Any]]
    ) -> None:
        self._queries = queries
        self._titles = titles

    def block(self, queries: NDArray[np.int64], columns: NDArray[np.int64] | None) -> Scores:
        """See `ScoreSource`."""
        titles = self._titles if columns is None else self._titles[columns]
        scores: Scores = self._queries[queries] @ titles.T
        return scores


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _vectors(path: Path, ids: Sequence[str], table: str) -> NDArray[np.float32]:
    """The rows of the given ids, in their order."""
    loaded = map_array(path, "Write it with numpy.save.")
    if loaded.ndim != 2 or loaded.dtype.kind not in "fiu":
        raise UserError(
            f"{path} holds {loaded.dtype} of the shape {loaded.shape}; expected numbers "
            "(texts, dimension)."
        )
    vectors: NDArray[np.float32] = loaded.astype(np.float32)
    if not np.isfinite(vectors).all():
        row = int(np.argwhere(~np.isfinite(vectors))[0, 0])
        raise UserError(f"{path}: row {row} holds a number that is not finite.")
    if not ids_path(path).exists():
        if len(vectors) != len(ids):
            raise UserError(
                f"{path} has {len(vectors):,} rows; expected {len(ids):,}, one a line of "
                f"{table}, or their ids in {ids_path(path)}."
            )
        return vectors
    lines = read_ids(path)
    if lines == list(ids) and len(lines) == len(vectors):
        return vectors
    rows = {id_: row for row, id_ in enumerate(lines)}
    if len(lines) != len(vectors) or len(rows) != len(lines):
        raise UserError(
            f"{ids_path(path)} has {len(lines):,} ids, {len(rows):,} different ones, for "
            f"{len(vectors):,} rows; expected one id of its own for each row, or those of {table} "
            "in its order."
        )
    missing = [id_ for id_ in ids if id_ not in rows]
    if missing:
        raise UserError(
            f"{ids_path(path)} lacks {len(missing):,} ids that are needed, {missing[0]!r} for one."
        )
    return np.asarray(vectors[[rows[id_] for id_ in ids]], dtype=np.float32)
