from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.training.search_settings import tune_search_settings
from dssm_tf.training.validation import TaskVectors, ValidationTask

TITLES = ("red hat", "blue box", "green tie", "felt boots")


def task(*clicked: int) -> ValidationTask:
    grades = sparse.csr_array(np.eye(4, dtype=np.float32)[list(clicked)] * 3)
    return ValidationTask(("hat", "box")[: len(clicked)], TITLES, grades)


def vectors(*nearest: int) -> TaskVectors:
    return TaskVectors(np.eye(4, dtype=np.float32)[list(nearest)], np.eye(4, dtype=np.float32))


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
    settings = tune_search_settings(task(*clicked), vectors(*nearest), 0.0)
    assert low <= settings.pop("bm25_weight") <= high
    assert not settings  # two queries are too few for a cut-off


def test_titles_that_a_query_does_not_rank_are_not_joined():
    listed = replace(task(0, 1), judged=sparse.csr_array([[1, 1, 0, 0]] * 2))
    found = tune_search_settings(listed, vectors(1, 0), np.zeros(4, np.float32))
    assert found["bm25_weight"] > 0.5


def test_of_twenty_good_first_titles_one_is_below_the_cut_off():
    """The cosine of query n and its title is n / 100; the 41st finds another title first."""
    names = tuple(f"w{number}" for number in range(42))
    cosines = np.diag(np.arange(42) / 100).astype(np.float32)
    cosines[41, 41], cosines[41, 0] = -1.0, -0.5
    queries = tuple(f"q{number}" for number in range(42))
    task = ValidationTask(queries, names, sparse.csr_array(np.eye(42) * 3))
    vectors = TaskVectors(cosines, np.eye(42, dtype=np.float32))
    # A prior lifts all titles and is no part of the cosine. 0 to 40 hundredths: 5 % is .02.
    found = tune_search_settings(task, vectors, np.float32(7.0))
    assert found["cutoff"] == pytest.approx(0.02)
