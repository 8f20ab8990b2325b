"""The papers' further figures: lengths of texts, grades of first titles, sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dssm_tf.evaluation.ranking import Ranking
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.text.rules import FOLDED

NOT_JUDGED, NOTHING = "not judged", "nothing ranked"
_MOST_GRADES = 7  # more different grades than these are counted by their whole part


@dataclass(frozen=True)
class Description:
    """What is known of texts and first titles.

    Attributes:
        query_lengths: how many queries have how many words (S14 fig. 2).
        title_lengths: how many titles have how many words.
        labels: grades, best first, then `not judged` and `nothing ranked` where they occur.
        first: by system, the label of each counted query's first title.
        top_1: by system, how many counted queries have a first title of each label (S14
            fig. 3).
    """

    query_lengths: Mapping[int, int]
    title_lengths: Mapping[int, int]
    labels: tuple[str, ...]
    first: Mapping[str, Sequence[str]]
    top_1: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, task: RankingTask, rankings: Mapping[str, Sequence[Ranking]]) -> Description:
        """Counts; distinct titles once, queries as often as they are judged."""
        left_out = set(task.left_out())
        rows = [row for row in range(len(task.queries)) if row not in left_out]
        grades = sorted({float(g) for row in rows for g in task.judged_grades[row]} | {0.0})
        whole = len(grades) > _MOST_GRADES

        def label(row: int, ranking: Ranking) -> str:
            if not len(ranking.columns):
                return NOTHING
            grade = task.grade(row, int(ranking.columns[0]))
            return NOT_JUDGED if grade is None else f"{int(grade) if whole else grade:g}"

        names = {f"{int(grade) if whole else grade:g}" for grade in grades}
        first = {
            system: [label(row, found[row]) for row in rows] for system, found in rankings.items()
        }
        used = {one for labels in first.values() for one in labels}
        labels = sorted(names, key=float, reverse=True)
        labels += [one for one in (NOT_JUDGED, NOTHING) if one in used]
        return cls(
            query_lengths=_lengths(task.queries),
            title_lengths=_lengths(list(dict.fromkeys(task.titles))),
            labels=tuple(labels),
            first=first,
            top_1={
                system: {one: Counter(found)[one] for one in labels}
                for system, found in first.items()
            },
        )

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
        """Part of `results.json`."""
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
