"""Writes the score of a model and its parts as features for learning to rank, for SVMlight.

    # 1:score 2:query_words 3:title_words 4:pairs 5:text_cosine 6:prior 7:remembered_clicks
    3 qid:1 1:0.957 2:0.701 3:0.131 4:0.08 5:0.045 6:0 7:0 # q17<tab>sku4

A line has the grade as label, the number of the query, the features, and a comment with the ids of
query and title. The lines of a query follow each other. The text cosine is 0 for a model without
text vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.trained_ranker import TrainedRanker
from dssm_tf.runtime.word_matches import parts_of_score
from dssm_tf.tables.judgments import Judgment

_MAXSIM = (
    "score", "query_words", "title_words", "pairs", "text_cosine", "prior", "remembered_clicks",
)  # fmt: skip
_COSINE = ("score", "similarity", "prior")
_ZERO = 1e-12  # smaller parts are rounding errors


def feature_names(ranker: TrainedRanker) -> tuple[str, ...]:
    """The names of the features of a model: the score and its parts, which add up to it."""
    return _MAXSIM if isinstance(ranker, MaxSimRanker) else _COSINE


def feature_lines(ranker: TrainedRanker, judgments: Sequence[Judgment]) -> Iterator[list[str]]:
    """Computes the lines of each query, with line ends.

    Args:
        ranker: the model.
        judgments: queries with graded titles, in any order.

    Yields:
        The lines of one query, in the order of its judgments.
    """
    by_query: dict[str, list[Judgment]] = {}
    for judgment in judgments:
        by_query.setdefault(judgment.query_id, []).append(judgment)
    for number, judged in enumerate(by_query.values(), 1):
        rows = _features(ranker, judged[0].query, [judgment.title for judgment in judged])
        yield [
            f"{judgment.grade:g} qid:{number} {_cells(row)} "
            f"# {judgment.query_id}\t{judgment.doc_id}\n"
            for judgment, row in zip(judged, rows, strict=True)
        ]


def _features(ranker: TrainedRanker, query: str, titles: Sequence[str]) -> Iterator[list[float]]:
    """The features of each title for a query."""
    scores, priors = ranker.score(query, titles).tolist(), ranker.weighted_prior(titles).tolist()
    if not isinstance(ranker, MaxSimRanker):
        for score, prior in zip(scores, priors, strict=True):
            yield [score, score - prior, prior]
        return
    clicks = ranker.remembered_score(query, titles).tolist()
    for title, score, prior, added in zip(titles, scores, priors, clicks, strict=True):
        yield [score, *parts_of_score(ranker.word_matches(query, title), prior, added).values()]


def _cells(row: Sequence[float]) -> str:
    """The features of a line, such as `1:0.912 2:0.701`."""
    values = (0.0 if abs(value) < _ZERO else value for value in row)
    return " ".join(f"{number}:{value:.7g}" for number, value in enumerate(values, 1))
