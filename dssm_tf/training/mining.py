"""Hard negatives from the rankings of any system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from dssm_tf.training.validation import Encode

_BLOCK = 128  # queries scored at once

Pairs = NDArray[np.int64]
"""Numbers of queries and of titles, `(pairs, 2)`."""

ScoreMatrix = Callable[[Sequence[str], Sequence[str]], NDArray[np.floating[Any]]]
"""Scores `(queries, titles)`; -inf for a title that is no answer at all."""


def hard_columns(
    scores: Scores, clicked: NDArray[np.int64], ranks: tuple[int, int], margin: float
) -> NDArray[np.int64]:
    """The columns of a query's hard negatives, best first.

    Those that were clicked are left out, and those that may be as good, though nobody clicked
    them: whose score is above the best clicked title's less `margin` of it. What is left is
    ranked.

    Args:
        scores: `(titles,)`; -inf is never a negative.
        clicked: columns of the titles that were clicked for the query, anywhere in the log.
        ranks: first and last, from 1, of what is left.
        margin: share of the clicked title's score, at least 0 and below 1.

    Reference: Moreira et al. 2024 (NV-Retriever), sec. 3.2, TopK-PercPos, where `1 - margin` is
    the percentage.
    """
    allowed = np.array(scores, np.float64)
    best = allowed[clicked].max(initial=-np.inf)
    allowed[clicked] = -np.inf
    if np.isfinite(best):
        allowed[allowed > best - margin * abs(best)] = -np.inf
    return top_columns(allowed, min(ranks[1], len(allowed)))[ranks[0] - 1 :]


def hard_pairs(
    data: Preprocessed,
    score: ScoreMatrix,
    ranks: tuple[int, int],
    margin: float,
    progress: str = "",
) -> Iterator[tuple[int, int, int, float]]:
    """Hard negatives of every query, of all titles: numbers of both, rank and score.

    Of titles with equal scores that with the lower number comes first.

    Args:
        data: what preprocess wrote.
        score: what ranks.
        ranks: see `hard_columns`.
        margin: see `hard_columns`.
        progress: what to call it on the error stream; empty to show nothing.
    """
    queries, titles = data.texts("queries"), data.texts("titles")
    with progress_of(progress, len(queries), bool(progress), unit="queries") as task:
        for start in range(0, len(queries), _BLOCK):
            block = queries[start : start + _BLOCK]
            for query, scores in enumerate(score(block, titles), start):
                clicked = data.clicked[query].values.to_numpy()
                hard = hard_columns(scores, clicked, ranks, margin)
                for rank, title in enumerate(hard.tolist(), ranks[0]):
                    yield query, title, rank, float(scores[title])
            task.advance(len(block))


def by_cosine(encode: Encode) -> ScoreMatrix:
    """Scores by the cosine of an encoder's unit vectors, without a prior: what training compares.

    Titles, which are the same in each call, are encoded once.
    """
    vectors: list[NDArray[np.float32]] = []

    def score(queries: Sequence[str], titles: Sequence[str]) -> NDArray[np.float32]:
        if not vectors:
            vectors.append(encode("title", titles))
        return encode("query", queries) @ vectors[0].T

    return score


def by_bm25(data: Preprocessed) -> ScoreMatrix:
    """Scores by BM25 over the titles of the data; a title without a word of the query is none."""
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

    They are titles that rank high for a query though nobody clicked them for it. A training run
    with the settings `negatives.mined=4` and `negatives.mined_from=mined.tsv` draws four of each
    query's in every epoch.

    Args:
        directory: what `dssm preprocess` wrote; all its titles are ranked for each query.
        out: table to write, new: query, title, system, rank, score.
        models: runs of `dssm train`, by name; they rank by their cosine, without a prior.
        bm25: whether BM25 mines, too.
        ranks: first and last, from 1, among the titles that could be negatives.
        margin: share of the best clicked title's score within which an unclicked title is left
            out, because it may be as good.
        progress: shows how far it is, on the error stream.

    Returns:
        The rows of the table: system after system, queries by number, best title first.

    Raises:
        UserError: an input cannot be used, `out` exists, or no title is left.
    """
    out, named = Path(out), models or {}
    if bm25 and "bm25" in named:
        raise UserError("models: bm25 is the name of another system; call the run otherwise.")
    if not (named or bm25):
        raise UserError("nothing to mine with: give a run (--model RUN), --bm25, or both.")
    if not (1 <= ranks[0] <= ranks[1] and 0 <= margin < 1):
        raise UserError(
            f"ranks {ranks[0]} {ranks[1]} and margin {margin:g}: expected the first rank, at least "
            "1, and then the last; and a share of the clicked title's score below 1."
        )
    refuse_existing(out)
    load_tensorflow()

    from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker

    data = Preprocessed(Path(directory))
    rankers = {name: SemanticRanker.load(run) for name, run in named.items()}
    systems = {name: by_cosine(Encoder(one.model, one.vocabulary)) for name, one in rankers.items()}
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
            f"no title of {directory} is at ranks {ranks[0]} to {ranks[1]} of what is left without "
            "the clicked ones and those within the margin; start at rank 1, or lower the margin."
        )
    write_hard_negatives(out, rows)
    return rows


def read_mined(negatives: NegativesConfig, data: Preprocessed) -> Pairs:
    """What `negatives.mined_from` holds; says aloud what the data do not know.

    The table is of `dssm mine`, or any with the columns query and title.

    Raises:
        UserError: the table cannot be read, or no row is of these data.
    """
    path = negatives.mined_from
    if path is None:
        return np.zeros((0, 2), np.int64)
    queries, titles = zip(*read_hard_negatives(path), strict=True)
    pairs = np.stack([data.find("queries", queries), data.find("titles", titles)], axis=1)
    known = pairs[np.all(pairs >= 0, axis=1)]
    if not len(known):
        raise UserError(f"{path}: no row is of {data.directory}; mine with this data.")
    if left_out := len(pairs) - len(known):
        line = (
            f"{path}: {left_out:,} of {len(pairs):,} rows have a query or a title that "
            f"{data.directory} does not hold; these are left out"
        )
        Console(stderr=True).print(line, style="yellow", highlight=False)
    return np.unique(known, axis=0)
