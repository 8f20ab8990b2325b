"""Chooses two settings of `dssm search` on the validation queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.evaluation.fusion import DEPTH, WEIGHTS, fuse
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import rank_of, top_columns
from dssm_tf.model.text_scorer import TextScores
from dssm_tf.training.validation import Matrix, ValidationTask

WITHOUT_BM25 = (0.0,)
"""The weights of BM25 to try if a search does not use it."""

_BATCH_SIZE = 64  # queries scored at once
_MIN_QUERIES = 40  # their 5th percentile has two queries below it
_CUTOFF_PERCENTILE = 5  # percent of good first results below the cutoff


def tune_search_settings(
    task: ValidationTask, scores: TextScores, bonus: Matrix | float, hybrid: bool = True
) -> dict[str, float]:
    """Chooses `bm25_weight` of a hybrid search and, if there are enough queries, `cutoff`.

    The weight of BM25 in `fuse` is the one with the highest mean NDCG@10; if several tie, the one
    nearest to 0.5. As in a search, the best titles of both systems are ranked together.

    The cutoff is the 5th percentile of the first title's score, over the queries whose first title
    has a grade: 1 of 20 good first titles is below it. How many bad first titles are below it
    depends on the queries and is not measured here. The score does not include the prior, because
    popularity does not make an irrelevant title relevant.

    Args:
        task: the validation queries.
        scores: scores of its queries and titles, without the prior.
        bonus: weighted log-priors of its titles, `(titles,)`.
        hybrid: whether a search combines the scores with those of BM25.
    """
    weights = WEIGHTS if hybrid else WITHOUT_BM25
    relevant = _ranks_by_weight(task, scores, bonus, weights)
    mean_ndcg = []
    for index in range(len(weights)):
        ranked = relevant.with_columns(rank=pl.col("ranks").list.get(index))
        values = per_query(ranked, len(task.queries), ["ndcg@10"])["ndcg@10"]
        mean_ndcg.append(values.mean())
    best_mean = max(mean_ndcg, default=0.0)
    best = [index for index, mean in enumerate(mean_ndcg) if mean == best_mean]
    chosen = min(best, key=lambda index: abs(weights[index] - 0.5))
    settings = {"bm25_weight": weights[chosen]} if hybrid else {}
    first = relevant.filter(pl.col("ranks").list.get(chosen) == 1)
    if len(first) >= _MIN_QUERIES:
        settings["cutoff"] = float(np.percentile(first["score"].to_numpy(), _CUTOFF_PERCENTILE))
    return settings


def _ranks_by_weight(
    task: ValidationTask, scores: TextScores, bonus: Matrix | float, weights: Sequence[float]
) -> pl.DataFrame:
    """One row per relevant title: query, grade, rank at each weight, score without the prior."""
    bm25 = None if weights == WITHOUT_BM25 else BM25().fit([], task.titles)
    rows: list[tuple[int, float, list[float], float]] = []
    for start in range(0, len(task.queries), _BATCH_SIZE):
        block = slice(start, start + _BATCH_SIZE)
        plain = scores.scores(block)
        semantic = task.mask_unranked(plain + bonus, block)
        lexical = None if bm25 is None else bm25.score_matrix(task.queries[block], task.titles)
        for row in range(len(semantic)):
            pool = top_columns(semantic[row], DEPTH)
            if lexical is None:
                fused = semantic[row][pool][:, None]
            else:
                matching = np.flatnonzero((lexical[row] > 0) & np.isfinite(semantic[row]))
                best_by_bm25 = matching[top_columns(lexical[row][matching], DEPTH)]
                pool = np.union1d(best_by_bm25, pool)
                both = lexical[row][pool], semantic[row][pool]
                fused = np.stack([fuse(*both, weight) for weight in weights], axis=1)
            relevant = task.grades[[start + row]]
            for title, grade in zip(relevant.indices, relevant.data, strict=True):
                column = np.flatnonzero(pool == title)
                ranks = rank_of(fused, column[0]) if len(column) else np.full(len(weights), np.nan)
                value = float(plain[row, title])
                rows.append((start + row, float(grade), ranks.tolist(), value))
    return pl.DataFrame(rows, ["query", "grade", "ranks", "score"], orient="row")
