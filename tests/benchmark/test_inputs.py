"""What workers read is what the benchmark wrote."""

from dssm_tf.benchmark.inputs import CLICKS, Inputs, write_clicks


def test_clicks_are_read_as_they_were_whatever_their_number(tmp_path):
    clicks = [("halo", "Reach", 1_234_567.0), ("fox", "Red Fox", 2.5), ("owl", "Owl", 1.0)]
    write_clicks(tmp_path / CLICKS, clicks)
    assert Inputs(tmp_path).clicks() == clicks
