"""Cosines beside grades, of models that are tables."""

from __future__ import annotations

import numpy as np
import pytest

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


GRADES = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.0}
PAIRS = [Judgment("1", "q", title, title, grade) for title, grade in GRADES.items()]


def test_a_pair_s_score_is_its_cosine_and_ranks_are_correlated():
    found = graded({"plane": Plane(), "other": Reversed()}, PAIRS)
    expected = [np.cos(ANGLES[title]) for title in GRADES]
    assert found.scores["plane"] == pytest.approx(expected)
    assert found.scores["other"] == pytest.approx([-one for one in expected])
    # Of four ranks two differ by one: 1 - 6 * 2 / (4 * 15).
    assert found.spearman() == pytest.approx({"plane": 0.8, "other": -0.8})
    assert "plane 0.800, other -0.800" in graded_html(found)


def test_pairs_of_every_grade_are_shown_and_judgments_of_one_grade_compare_nothing():
    found = graded({"plane": Plane()}, PAIRS)
    assert [found.pairs[place].grade for place in found.examples(1)] == [3, 2, 1, 0]
    alone = graded({"plane": Plane()}, PAIRS[:1])
    assert alone.spearman() == {}
    assert "there is nothing to correlate" in graded_html(alone)


def test_many_grades_are_shown_under_their_whole_parts():
    pairs = [Judgment("1", "q", "a", "a", grade / 8) for grade in range(24)]
    shown = [pairs[place].grade for place in graded({"plane": Plane()}, pairs).examples(1)]
    assert [int(grade) for grade in shown] == [2, 1, 0]
