import numpy as np
import pytest
from scipy import sparse

from dssm_tf.training.bm25_weight import best_bm25_weight
from dssm_tf.training.validation import ValidationTask, Vectors

TITLES = ("red hat", "blue box", "green tie", "felt boots")


def task(*clicked: int) -> ValidationTask:
    grades = sparse.csr_array(np.eye(4, dtype=np.float32)[list(clicked)] * 3)
    return ValidationTask(("hat", "box")[: len(clicked)], TITLES, grades)


def vectors(*nearest: int) -> Vectors:
    return Vectors(np.eye(4, dtype=np.float32)[list(nearest)], np.eye(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("clicked", "nearest", "low", "high"),
    [
        # Words find both clicked titles, the model the other one.
        ((0, 1), (1, 0), 0.5, 1.0),
        # The model finds both, words others.
        ((2, 3), (2, 3), 0.0, 0.45),
        # Both find them: nothing speaks against a half.
        ((0, 1), (0, 1), 0.5, 0.5),
    ],
)
def test_the_weight_is_the_one_that_ranks_validation_queries_best(clicked, nearest, low, high):
    assert low <= best_bm25_weight(task(*clicked), vectors(*nearest), 0.0) <= high


def test_titles_that_a_query_does_not_rank_are_not_joined():
    class Listed(ValidationTask):
        def ranked(self, scores, block):
            return np.where(np.arange(4) < 2, scores, -np.inf)

    one = task(0, 1)
    found = best_bm25_weight(
        Listed(one.queries, one.titles, one.grades), vectors(1, 0), np.zeros(4, np.float32)
    )
    assert found > 0.5
