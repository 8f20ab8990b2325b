"""The cutoff of a search: how it is chosen, and when there is none."""

import numpy as np
import pytest
from scipy import sparse

from dssm_tf.model.text_scorer import VectorScores
from dssm_tf.training.search_settings import choose_cutoff
from dssm_tf.training.validation import ValidationTask


def test_the_cutoff_is_chosen_by_the_ranking_of_the_scores():
    # For query n, the scores rank the title after n first.
    names = tuple(f"w{index}" for index in range(41))
    clicked = np.roll(np.eye(41, dtype=np.float32), 1, axis=1)
    task = ValidationTask(names, names, sparse.csr_array(clicked * 3))
    scores = VectorScores(clicked * np.float32(0.5), np.eye(41, dtype=np.float32))
    assert choose_cutoff(task, scores) == {"cutoff": 0.5}


def test_5_percent_of_the_good_first_titles_are_below_the_cutoff():
    """The cosine of query n and its title is n / 100; for the last query another title is first."""
    names = tuple(f"w{index}" for index in range(42))
    cosines = np.diag(np.arange(42) / 100).astype(np.float32)
    cosines[41, 41], cosines[41, 0] = -1.0, -0.5
    queries = tuple(f"q{index}" for index in range(42))
    task = ValidationTask(queries, names, sparse.csr_array(np.eye(42) * 3))
    vectors = VectorScores(cosines, np.eye(42, dtype=np.float32))
    # 5 % of 0 to .40 is .02.
    settings = choose_cutoff(task, vectors)
    assert settings["cutoff"] == pytest.approx(0.02)


def test_with_fewer_than_40_good_first_titles_there_is_no_cutoff():
    names = tuple(f"w{index}" for index in range(39))
    task = ValidationTask(names, names, sparse.csr_array(np.eye(39) * 3))
    identity = np.eye(39, dtype=np.float32)
    assert choose_cutoff(task, VectorScores(identity, identity)) == {}


def test_titles_that_a_query_does_not_rank_do_not_count():
    names = tuple(f"w{index}" for index in range(41))
    next_title = np.roll(np.eye(41, dtype=np.float32), 1, axis=1)
    # The next title has the highest score of each query, but only title n is judged.
    task = ValidationTask(
        names, names, sparse.csr_array(np.eye(41) * 3), judged=sparse.csr_array(np.eye(41))
    )
    scores = VectorScores(next_title + np.float32(0.5) * np.eye(41, dtype=np.float32),
                         np.eye(41, dtype=np.float32))  # fmt: skip
    assert choose_cutoff(task, scores) == {"cutoff": pytest.approx(0.5)}


def test_a_popular_title_that_is_not_similar_does_not_lower_the_cutoff():
    # Query n is clicked on title n. Query 41 is clicked on title 0, which a prior could put first.
    names = tuple(f"w{index}" for index in range(42))
    grades = np.eye(42)
    grades[41] = np.eye(42)[0]
    task = ValidationTask(names, names, sparse.csr_array(grades))
    cosines = np.eye(42, dtype=np.float32)
    cosines[41, 0] = 0.01
    # The most similar title of query 41 is title 41, without a click: the query does not count.
    assert choose_cutoff(task, VectorScores(cosines, np.eye(42, dtype=np.float32))) == {"cutoff": 1}
