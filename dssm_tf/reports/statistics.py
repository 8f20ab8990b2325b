"""Statistics that the papers report: grades of first titles, and lengths of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.rules import FOLDED

NOT_JUDGED, NOTHING = "not judged", "nothing ranked"


def first_title_labels(task: RankingTask, runs: Mapping[str, pl.DataFrame]) -> dict[str, list[str]]:
    """The label of each query's first title, by system (Shen et al. 2014, fig. 3).

    Queries without a relevant title are omitted, as in the means of metrics. A label is the
    integer part of the grade, `not judged` or `nothing ranked`.
    """
    queries = pl.DataFrame({"query": np.flatnonzero(task.has_relevant)})
    label = (
        pl.when(pl.col("title").is_null())
        .then(pl.lit(NOTHING))
        .otherwise(pl.col("grade").cast(pl.Int64).cast(pl.String).fill_null(NOT_JUDGED))
    )
    labels_by_system = {}
    for system, run in runs.items():
        first = run.filter(pl.col("rank") == 1).join(task.judged, on=["query", "title"], how="left")
        rows = queries.join(first, on="query", how="left", maintain_order="left")
        labels_by_system[system] = rows.select(label).to_series().to_list()
    return labels_by_system


def labels(task: RankingTask, first: Mapping[str, Sequence[str]]) -> list[str]:
    """All labels for a table: grades, best first, then the other labels that occur."""
    occurring = {label for system_labels in first.values() for label in system_labels}
    grades = {int(grade) for grade in (0, *task.judged["grade"].unique())}
    others = [label for label in (NOT_JUDGED, NOTHING) if label in occurring]
    return [*map(str, sorted(grades, reverse=True)), *others]


def lengths(texts: Collection[str]) -> dict[int, float]:
    """The fraction of texts by number of words (Shen et al. 2014, fig. 2), shortest first."""
    counts = Counter(len(FOLDED.words(text)) for text in texts)
    return {words: count / len(texts) for words, count in sorted(counts.items())}
