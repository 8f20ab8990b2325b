"""Activations of a tower."""

import pytest

from dssm_tf.analysis.activations import readings


def test_readings_of_a_batch_equal_the_readings_of_single_texts(rankers):
    tower, vocabulary = rankers("bilstm").model.query_tower, rankers("bilstm").vocabulary
    batch = list(readings(tower, vocabulary, ["the red fox", "", "owl"]))
    assert [directions[0].words for directions in batch] == [["the", "red", "fox"], ["owl"]]
    for text, directions in zip(["the red fox", "owl"], batch, strict=True):
        (expected,) = readings(tower, vocabulary, [text])
        for reading, other in zip(directions, expected, strict=True):
            assert reading.backwards == other.backwards
            for gate in "ifocy":
                assert reading.activations[gate] == pytest.approx(other.activations[gate], abs=1e-6)
