"""Cosines beside grades, of models that are tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from dssm_tf.analysis.graded import graded
from dssm_tf.analysis.html import graded_html
from dssm_tf.tables.judgments import Judgment

ANGLES = {"q": 0.0, "a": 0.1, "b": 0.5, "c": 1.0, "d": 1.4}


class Plane:
    """Each text a unit vector at its angle."""

    def encode_queries(self, texts):
        return np.array([[np.cos(ANGLES[one]), np.sin(ANGLES[one])] for one in texts])

    encode_titles = encode_queries


class Reversed(Plane):
    def encode_titles(self, texts):
        return -self.encode_queries(texts)


GRADES = {"a": 3.0, "b": 2.0, "c": 2.0, "d": 0.0}
PAIRS = [Judgment("1", "q", title, title, grade) for title, grade in GRADES.items()]


def test_a_pair_s_score_is_its_cosine():
    found = graded({"plane": Plane(), "other": Reversed()}, PAIRS)
    expected = [np.cos(ANGLES[title]) for title in GRADES]
    assert found.scores["plane"] == pytest.approx(expected)
    assert found.scores["other"] == pytest.approx([-one for one in expected])
    assert found.grades == [3, 2, 0]
    low, middle, high = found.quartiles("plane", 2.0)
    assert middle == pytest.approx((np.cos(0.5) + np.cos(1.0)) / 2)
    # Two scores: a quarter of the way from either, and not a fifth.
    assert (low, high) == pytest.approx(np.interp([0.25, 0.75], [0, 1], np.cos([1.0, 0.5])))


def test_the_rank_correlation_is_spearman_s():
    found = graded({"plane": Plane(), "other": Reversed()}, PAIRS)
    expected = spearmanr([one.grade for one in PAIRS], found.scores["plane"]).statistic
    assert found.agreement("plane") == pytest.approx(expected)
    assert found.agreement("other") == pytest.approx(-expected)


def test_pairs_of_every_grade_are_shown_and_judgments_of_one_grade_compare_nothing():
    found = graded({"plane": Plane()}, PAIRS)
    shown = [found.pairs[place].grade for place in found.examples(1)]
    assert shown == [3, 2, 0]
    assert "Rank correlation (Spearman)</th>" in graded_html(found)
    alone = graded({"plane": Plane()}, PAIRS[:1])
    assert np.isnan(alone.agreement("plane"))
    assert "All judgments are of grade 3: there is nothing to compare" in graded_html(alone)


def test_many_grades_stand_for_their_whole_parts_and_many_pairs_are_drawn():
    pairs = [Judgment("1", "q", "a", "a", grade / 8) for grade in range(24)]
    found = graded({"plane": Plane()}, pairs)
    assert found.grades == [2, 1, 0]
    few = graded({"plane": Plane()}, pairs, most=5)
    assert len(few.pairs) == 5
    assert "5 of 24 pairs, drawn by lot" in graded_html(few)
