"""Mines hard negatives: titles that a system ranks high but that were not clicked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import refuse_existing
from dssm_tf.common.progress import progress_of
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config.training import NegativesConfig
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.ranking import Scores, top_columns
from dssm_tf.tables.graded_lists import HardNegative, read_hard_negatives, write_hard_negatives

_BLOCK = 128  # queries scored at once

IndexPairs = NDArray[np.int64]
"""Query indices and title indices, `(pairs, 2)`."""

ScoreMatrix = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""Scores `(queries, titles)` of queries and titles; -inf for a title that does not match."""


def hard_columns(
    scores: Scores, clicked: NDArray[np.int64], ranks: tuple[int, int], margin: float
) -> NDArray[np.int64]:
    """The columns of a query's hard negatives, best first.

    Clicked titles are left out. So are titles that may be as relevant as a clicked one: those
    whose score is above `1 - margin` times the score of the best clicked title. The remaining
    titles are ranked.

    Args:
        scores: `(titles,)`; a title with -inf is never a negative.
        clicked: columns of the titles that were clicked for the query in any split.
        ranks: first and last rank, from 1, among the remaining titles.
        margin: fraction of the best clicked title's score, at least 0 and below 1.

    Reference: Moreira et al. 2024 (NV-Retriever), sec. 3.2, TopK-PercPos, where `1 - margin` is
    the percentage.
    """
    remaining = np.array(scores, np.float64)
    best = remaining[clicked].max(initial=-np.inf)
    remaining[clicked] = -np.inf
    if np.isfinite(best):
        remaining[remaining > best - margin * abs(best)] = -np.inf
    return top_columns(remaining, min(ranks[1], len(remaining)))[ranks[0] - 1 :]


class HardPair(NamedTuple):
    """A hard negative: the indices of a query and a title, and the rank and score of the title."""

    query: int
    title: int
    rank: int
    score: float


def hard_pairs(
    data: Preprocessed,
    score: ScoreMatrix,
    ranks: tuple[int, int],
    margin: float,
    label: str = "",
) -> Iterator[HardPair]:
    """Yields the hard negatives of every query.

    All titles are ranked. Titles with equal scores are ordered by index.

    Args:
        data: the preprocessed directory.
        score: scores of the system that ranks.
        ranks: see `hard_columns`.
        margin: see `hard_columns`.
        label: label of the progress bar on the error stream; empty shows none.
    """
    queries, titles = data.texts("queries"), data.texts("titles")
    with progress_of(label, len(queries), bool(label), unit="queries") as task:
        for start in range(0, len(queries), _BLOCK):
            block = queries[start : start + _BLOCK]
            for query, scores in enumerate(score(block, titles), start):
                clicked = data.clicked[query].values.to_numpy()
                hard = hard_columns(scores, clicked, ranks, margin)
                for rank, title in enumerate(hard.tolist(), ranks[0]):
                    yield HardPair(query, title, rank, float(scores[title]))
            task.advance(len(block))


def by_bm25(data: Preprocessed) -> ScoreMatrix:
    """Scores by BM25 over the titles of the data; -inf for a title without a word of the query."""
    from dssm_tf.baselines.bm25 import BM25

    ranker = BM25().fit([], data.texts("titles"))

    def score(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float64]:
        scores = ranker.score_matrix(queries, titles)
        return np.where(scores > 0, scores, -np.inf)

    return score


def mine(
    directory: Path | str,
    out: Path | str,
    models: Mapping[str, Path | str] | None = None,
    *,
    bm25: bool = False,
    ranks: tuple[int, int] = (1, 30),
    margin: float = 0.05,
    progress: bool = False,
) -> list[HardNegative]:
    """Mines hard negatives and writes them as a table, as `dssm mine` does.

    Hard negatives of a query are titles that rank high but were not clicked for it. A training with
    the settings `negatives.mined=4` and `negatives.mined_from=mined.tsv` draws four of them per
    query in every epoch.

    Args:
        directory: the directory that `dssm preprocess` wrote; all its titles are ranked per query.
        out: table to write, with the columns query, title, system, rank, score. It must not exist.
        models: runs of `dssm train`, by name; they rank by their cosine, without the prior.
        bm25: whether BM25 ranks too.
        ranks: first and last rank, from 1, among the titles that may be negatives.
        margin: fraction of the best clicked title's score. Unclicked titles within this margin of
            the score are left out, because they may be as relevant.
        progress: whether to show progress bars on the error stream.

    Returns:
        The rows of the table: system after system, queries by index, best title first.

    Raises:
        UserError: an input cannot be used, `out` exists, or there are no hard negatives.
    """
    out, runs = Path(out), models or {}
    if bm25 and "bm25" in runs:
        raise UserError(
            "models: the name bm25 is reserved for BM25; choose another name for the run."
        )
    if not (runs or bm25):
        raise UserError("no system to mine with: give a run (--model RUN), --bm25, or both.")
    if not (1 <= ranks[0] <= ranks[1] and 0 <= margin < 1):
        raise UserError(
            f"ranks {ranks[0]} {ranks[1]} and margin {margin:g}: expected the first rank, at least "
            "1, then the last rank; and a margin of at least 0 and below 1."
        )
    refuse_existing(out)
    load_tensorflow()

    from dssm_tf.model.load_run import load_run

    data = Preprocessed(Path(directory))
    if not data.spec.count("queries"):
        raise UserError(
            f"{directory} has no queries to mine for, because it was made without a click log; "
            "give preprocess --input."
        )
    systems: dict[str, ScoreMatrix] = {
        name: load_run(run).similarity_matrix for name, run in runs.items()
    }
    if bm25:
        systems["bm25"] = by_bm25(data)
    queries, titles = data.texts("queries"), data.texts("titles")
    rows = [
        HardNegative(queries[query], titles[title], name, rank, score)
        for name, system in systems.items()
        for query, title, rank, score in hard_pairs(
            data, system, ranks, margin, f"mine {name}" if progress else ""
        )
    ]
    if not rows:
        raise UserError(
            f"no title of {directory} is at ranks {ranks[0]} to {ranks[1]}, without clicked titles "
            "and titles within the margin; start at rank 1, or lower the margin."
        )
    write_hard_negatives(out, rows)
    return rows


def read_mined(negatives: NegativesConfig, data: Preprocessed) -> IndexPairs:
    """The pairs of the table `negatives.mined_from`, without texts that the data lack.

    Prints how many rows are left out. The table is one that `dssm mine` wrote, or any table with
    the columns query and title.

    Raises:
        UserError: the table cannot be read, or the data have none of its pairs.
    """
    path = negatives.mined_from
    if path is None:
        return np.zeros((0, 2), np.int64)
    queries, titles = zip(*read_hard_negatives(path), strict=True)
    pairs = np.stack([data.find("queries", queries), data.find("titles", titles)], axis=1)
    known_pairs = pairs[np.all(pairs >= 0, axis=1)]
    if not len(known_pairs):
        raise UserError(
            f"{path}: no row has a query and a title of {data.directory}; mine with this data."
        )
    if left_out := len(pairs) - len(known_pairs):
        line = (
            f"{path}: {left_out:,} of {len(pairs):,} rows are left out, because their query or "
            f"title is not in {data.directory}"
        )
        Console(stderr=True).print(line, style="yellow", highlight=False)
    return np.unique(known_pairs, axis=0)
