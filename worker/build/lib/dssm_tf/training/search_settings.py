"""What a search needs beside the model: BM25's weight, and when it found nothing good."""

from __future__ import annotations

import numpy as np

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.evaluation.fusion import DEPTH, WEIGHTS, fuse
from dssm_tf.evaluation.metrics import per_query
from dssm_tf.evaluation.ranking import RelevantRanks, top_columns
from dssm_tf.training.validation import Matrix, ValidationTask, Vectors

_BLOCK = 64  # queries scored at once
_LEAST_QUERIES = 40  # whose 5th percentile has two queries below it
_MISSED = 5  # percent of good first results below the cut-off


def search_settings(
    task: ValidationTask, vectors: Vectors, bonus: Matrix | float
) -> dict[str, float]:
    """Chooses `bm25_weight` and, if there are enough queries, `cutoff` on the validation queries.

    The weight of BM25 in `fuse` is the one with the best mean NDCG@10; of equals the one nearest to
    a half. The best titles of both are joined, as a search does.

    The cut-off is the 5th percentile of the first title's cosine, over the queries whose first
    title was clicked: of 20 good first titles one is below it. How many bad ones are below it
    depends on the queries, and nothing here measures it. The prior does not count, since a popular
    title is no better an answer to a query that nothing answers.

    Args:
        task: what is ranked.
        vectors: of its queries and titles.
        bonus: the weighted log-priors of its titles, `(titles,)`.
    """
    bm25 = BM25().fit([], task.titles)
    ranks: list[list[np.ndarray]] = [[] for _ in WEIGHTS]
    first: list[list[float]] = [[] for _ in WEIGHTS]  # cosines of first titles that were clicked
    grades = []
    for start in range(0, len(task.queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        cosines = vectors.queries[block] @ vectors.titles.T
        meaning = task.ranked(cosines + bonus, block)
        words = bm25.score_matrix(task.queries[block], task.titles)
        for row in range(len(meaning)):
            relevant = task.grades[[start + row]]
            grades.append(relevant.data)
            held = np.flatnonzero((words[row] > 0) & np.isfinite(meaning[row]))
            by_words = held[top_columns(words[row][held], DEPTH)]
            pool = np.union1d(by_words, top_columns(meaning[row], DEPTH))
            for ranked_at, good, weight in zip(ranks, first, WEIGHTS, strict=True):
                fused = fuse(words[row][pool], meaning[row][pool], weight)
                ranked = pool[np.argsort(-fused, kind="stable")]
                rank = {title: place for place, title in enumerate(ranked.tolist(), 1)}
                places = [rank.get(one, 0) for one in relevant.indices.tolist()]
                ranked_at.append(np.array(places))
                good += [float(cosines[row, ranked[0]])] * (1 in places)
    means = [
        per_query(RelevantRanks.from_lists(one, grades), ["ndcg@10"])["ndcg@10"].mean()
        for one in ranks
    ]
    best = max(means, default=0.0)
    equals = [place for place, mean in enumerate(means) if mean == best]
    chosen = min(equals, key=lambda place: abs(WEIGHTS[place] - 0.5))
    settings = {"bm25_weight": WEIGHTS[chosen]}
    if len(first[chosen]) >= _LEAST_QUERIES:
        settings["cutoff"] = float(np.percentile(first[chosen], _MISSED))
    return settings
