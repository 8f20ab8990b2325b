"""How much BM25 counts beside a model, by the validation queries."""

from __future__ import annotations

import numpy as np

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.evaluation.fusion import DEPTH, WEIGHTS, fuse
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import RelevantRanks, top_columns
from dssm_tf.training.validation import Matrix, ValidationTask, Vectors

_BLOCK = 64  # queries scored at once


def best_bm25_weight(task: ValidationTask, vectors: Vectors, bonus: Matrix | float) -> float:
    """The weight of BM25 in `fuse` with the best mean NDCG@10; of equals that nearest to a half.

    The best titles of both are joined, as a search does.

    Args:
        task: what is ranked.
        vectors: of its queries and titles.
        bonus: the weighted log-priors of its titles, `(titles,)`.
    """
    bm25 = BM25().fit([], task.titles)
    ranks: list[list[np.ndarray]] = [[] for _ in WEIGHTS]
    grades = []
    for start in range(0, len(task.queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        meaning = task.ranked(vectors.queries[block] @ vectors.titles.T + bonus, block)
        words = bm25.score_matrix(task.queries[block], task.titles)
        for row in range(len(meaning)):
            relevant = task.grades[[start + row]]
            grades.append(relevant.data)
            held = np.flatnonzero((words[row] > 0) & np.isfinite(meaning[row]))
            by_words = held[top_columns(words[row][held], DEPTH)]
            pool = np.union1d(by_words, top_columns(meaning[row], DEPTH))
            for found, weight in zip(ranks, WEIGHTS, strict=True):
                fused = fuse(words[row][pool], meaning[row][pool], weight)
                ranked = pool[np.argsort(-fused, kind="stable")]
                rank = {title: place for place, title in enumerate(ranked.tolist(), 1)}
                found.append(np.array([rank.get(one, 0) for one in relevant.indices.tolist()]))
    means = [
        per_query(RelevantRanks.from_lists(one, grades), ["ndcg@10"])["ndcg@10"].mean()
        for one in ranks
    ]
    best = max(means, default=0.0)
    return min((w for w, mean in zip(WEIGHTS, means, strict=True) if mean == best),
               key=lambda weight: abs(weight - 0.5))  # fmt: skip
