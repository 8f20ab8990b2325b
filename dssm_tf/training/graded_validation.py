"""Ranks the held-out judged queries: each its judged titles, by their grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.tables.graded_lists import GradedList
from dssm_tf.text.normalize import normalize
from dssm_tf.training.validation import ValidationTask


@dataclass(frozen=True)
class GradedValidationTask(ValidationTask):
    """Judged queries, each of which ranks the titles that were judged for it and no others.

    Args:
        queries: those with a title above grade 0.
        titles: judged for any of them, in the order that ties go by.
        grades: `(queries, titles)`, 0 where nobody judged.
        judged: `(queries, titles)`, whether somebody did.
    """

    judged: NDArray[np.bool_]

    about = (
        "Judged queries held out of training rank the titles that were judged for them, by their "
        "grades."
    )

    @classmethod
    def of_lists(cls, lists: Sequence[GradedList], max_queries: int) -> GradedValidationTask | None:
        """The task of held-out lists, the first so many; None where none has a good title."""
        chosen = [one for one in lists if max(one.values) > 0][:max_queries]
        if not chosen:
            return None
        texts = {normalize(title): title for one in chosen for title in one.titles}
        keys = sorted(texts, key=tie_key)
        column = {key: number for number, key in enumerate(keys)}
        grades = np.zeros((len(chosen), len(keys)), np.float32)
        judged = np.zeros(grades.shape, bool)
        for row, one in enumerate(chosen):
            columns = [column[normalize(title)] for title in one.titles]
            grades[row, columns] = one.values
            judged[row, columns] = True
        return cls(
            tuple(one.query for one in chosen), tuple(texts[key] for key in keys), grades, judged
        )

    def ranked(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `ValidationTask`."""
        return np.where(self.judged, scores, np.float32(-np.inf))
