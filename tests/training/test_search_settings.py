from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.model.text_scorer import TextVectors
from dssm_tf.training.search_settings import tune_search_settings
from dssm_tf.training.validation import ValidationTask

TITLES = ("red hat", "blue box", "green tie", "felt boots")


def task(*clicked: int) -> ValidationTask:
    grades = sparse.csr_array(np.eye(4, dtype=np.float32)[list(clicked)] * 3)
    return ValidationTask(("hat", "box")[: len(clicked)], TITLES, grades)


def vectors(*nearest: int) -> TextVectors:
    return TextVectors(np.eye(4, dtype=np.float32)[list(nearest)], np.eye(4, dtype=np.float32))


@pytest.mark.parametrize(
    ("clicked", "nearest", "low", "high"),
    [
        # BM25 ranks both clicked titles first, the model ranks others first.
        ((0, 1), (1, 0), 0.5, 1.0),
        # The model ranks both first, BM25 ranks others first.
        ((2, 3), (2, 3), 0.0, 0.45),
        # Both rank them first, so all weights tie, and 0.5 is chosen.
        ((0, 1), (0, 1), 0.5, 0.5),
    ],
)
def test_the_weight_is_the_best_for_the_validation_queries(clicked, nearest, low, high):
    settings = tune_search_settings(task(*clicked), vectors(*nearest), 0.0)
    assert low <= settings.pop("bm25_weight") <= high
    assert not settings  # two queries are too few for a cutoff


def test_titles_that_a_query_does_not_rank_are_not_joined():
    judged = replace(task(0, 1), judged=sparse.csr_array([[1, 1, 0, 0]] * 2))
    settings = tune_search_settings(judged, vectors(1, 0), np.zeros(4, np.float32))
    assert settings["bm25_weight"] > 0.5


def test_without_bm25_only_the_cutoff_is_chosen_by_the_ranking_of_the_scores():
    # BM25 would rank title n first for query n; the scores rank the next title first.
    names = tuple(f"w{index}" for index in range(41))
    clicked = np.roll(np.eye(41, dtype=np.float32), 1, axis=1)
    task = ValidationTask(names, names, sparse.csr_array(clicked * 3))
    scores = TextVectors(clicked * np.float32(0.5), np.eye(41, dtype=np.float32))
    assert tune_search_settings(task, scores, 0.0, hybrid=False) == {"cutoff": 0.5}


def test_5_percent_of_the_good_first_titles_are_below_the_cutoff():
    """The cosine of query n and its title is n / 100; for the last query another title is first."""
    names = tuple(f"w{index}" for index in range(42))
    cosines = np.diag(np.arange(42) / 100).astype(np.float32)
    cosines[41, 41], cosines[41, 0] = -1.0, -0.5
    queries = tuple(f"q{index}" for index in range(42))
    task = ValidationTask(queries, names, sparse.csr_array(np.eye(42) * 3))
    vectors = TextVectors(cosines, np.eye(42, dtype=np.float32))
    # The prior raises all scores but not the cosine. 5 % of 0 to .40 is .02.
    settings = tune_search_settings(task, vectors, np.float32(7.0))
    assert settings["cutoff"] == pytest.approx(0.02)
