"""The papers' further figures: lengths of texts, grades of first titles, sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dssm_tf.evaluation.ranking import Ranking
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.rules import FOLDED

NOT_JUDGED, NOTHING = "not judged", "nothing ranked"


@dataclass(frozen=True)
class Description:
    """What is known of texts and first titles.

    Attributes:
        query_lengths: how many queries have how many words (S14 fig. 2).
        title_lengths: how many titles have how many words.
        labels: grades, best first, then `not judged` and `nothing ranked` where they occur.
        first: by system, the label of each counted query's first title, the whole part of
            its grade.
    """

    query_lengths: Mapping[int, int]
    title_lengths: Mapping[int, int]
    labels: tuple[str, ...]
    first: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, task: RankingTask, rankings: Mapping[str, Sequence[Ranking]]) -> Description:
        """Counts distinct titles once, queries as often as they are judged."""
        rows = np.unique(task.relevant["query"])

        def label(row: int, ranking: Ranking) -> str:
            if not len(ranking.columns):
                return NOTHING
            grade = task.grade(row, int(ranking.columns[0]))
            return NOT_JUDGED if grade is None else str(int(grade))

        first = {
            system: [label(row, found[row]) for row in rows] for system, found in rankings.items()
        }
        used = {one for labels in first.values() for one in labels}
        labels = sorted({str(int(one)) for one in (0, *task.judged["grade"])}, key=int)[::-1]
        labels += [one for one in (NOT_JUDGED, NOTHING) if one in used]
        lengths = _lengths(task.queries), _lengths(list(dict.fromkeys(task.titles)))
        return cls(*lengths, tuple(labels), first)

    @property
    def top_1(self) -> Mapping[str, Mapping[str, int]]:
        """By system, how many counted queries have a first title of each label (S14 fig. 3)."""
        return {
            system: {one: labels.count(one) for one in self.labels}
            for system, labels in self.first.items()
        }

    @property
    def queries_without_words(self) -> int:
        """Queries that normalise to nothing."""
        return self.query_lengths.get(0, 0)

    def cross_table(self, a: str, b: str) -> list[list[int]]:
        """Queries by the label of the first title of `a`, down, and of `b`, across.

        Reference: Shen et al. 2014, table 7.
        """
        pairs = Counter(zip(self.first[a], self.first[b], strict=True))
        return [[pairs[row, column] for column in self.labels] for row in self.labels]

    def to_json(self) -> dict[str, Any]:
        """Part of `metrics.json`."""
        return {
            "lengths": {
                "queries": {str(words): count for words, count in self.query_lengths.items()},
                "titles": {str(words): count for words, count in self.title_lengths.items()},
            },
            "grades": list(self.labels),
            "first_title_grades": {system: list(found) for system, found in self.first.items()},
        }


def mean_length(lengths: Mapping[int, int]) -> float:
    """Words a text."""
    return sum(words * count for words, count in lengths.items()) / sum(lengths.values())


def _lengths(texts: Sequence[str]) -> dict[int, int]:
    return dict(sorted(Counter(len(FOLDED.words(text)) for text in texts).items()))
