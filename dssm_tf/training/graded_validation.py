"""Ranks the held-out judged queries: each its judged titles, by their grades."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.tables.graded_lists import GradedList
from dssm_tf.text.rules import Rules
from dssm_tf.training.validation import Matrix, ValidationTask, of_cells


@dataclass(frozen=True)
class GradedValidationTask(ValidationTask):
    """Judged queries, each of which ranks the titles that were judged for it and no others.

    Args:
        queries: those with a title above grade 0.
        titles: judged for any of them, in the order that ties go by.
        grades: sparse `(queries, titles)`, 0 where nobody judged.
        judged: sparse `(queries, titles)`, 1 where somebody did.
    """

    judged: sparse.csr_array

    about = (
        "Judged queries held out of training rank the titles that were judged for them, by their "
        "grades."
    )

    @classmethod
    def of_lists(
        cls, lists: Sequence[GradedList], rules: Rules, max_queries: int
    ) -> GradedValidationTask | None:
        """The task of held-out lists, the first so many; None where none has a good title."""
        chosen = [one for one in lists if max(one.values) > 0][:max_queries]
        if not chosen:
            return None
        texts = {rules.key(title): title for one in chosen for title in one.titles}
        keys = sorted(texts, key=tie_key)
        column = {key: number for number, key in enumerate(keys)}
        grades = {
            (row, column[rules.key(title)]): value
            for row, one in enumerate(chosen)
            for title, value in zip(one.titles, one.values, strict=True)
        }
        shape = len(chosen), len(keys)
        return cls(
            tuple(one.query for one in chosen),
            tuple(texts[key] for key in keys),
            of_cells(grades, shape),
            of_cells(dict.fromkeys(grades, 1.0), shape),
        )

    def ranked(self, scores: Matrix, block: slice) -> Matrix:
        """See `ValidationTask`."""
        return np.where(self.judged[block].toarray(), scores, np.float32(-np.inf))
