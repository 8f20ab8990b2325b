"""Readings of a tower."""

import pytest

from dssm_tf.analysis.activations import readings


def test_a_text_is_read_as_each_direction_reads_it_alone(rankers):
    tower, vocabulary = rankers("bilstm").model.query_tower, rankers("bilstm").vocabulary
    found = list(readings(tower, vocabulary, ["the red fox", "", "owl"]))
    assert [one[0].words for one in found] == [["the", "red", "fox"], ["owl"]]
    for text, of_text in zip(["the red fox", "owl"], found, strict=True):
        (alone,) = readings(tower, vocabulary, [text])
        for one, other in zip(of_text, alone, strict=True):
            assert one.backwards == other.backwards
            for gate in "ifocy":
                assert one.activations[gate] == pytest.approx(other.activations[gate], abs=1e-6)
