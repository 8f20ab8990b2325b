"""The click log read back from a directory of records."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.data.recorded_clicks import recorded_clicks
from tests.clicks import Click, write_data

LOG = [Click("red hat", "Red Hat", 3), Click("hat", "Red Hat", 1), Click("box", "Blue Box", 2)]


def test_it_holds_every_pair_of_every_part_once(tmp_path):
    data = write_data(tmp_path / "data", LOG, validation={"hat"})
    assert recorded_clicks(data.path) == [
        ("box", "Blue Box", 2.0), ("hat", "Red Hat", 1.0), ("red hat", "Red Hat", 3.0)
    ]  # fmt: skip


def test_a_missing_shard_is_an_error_and_not_a_smaller_log(tmp_path):
    data = write_data(tmp_path / "data", LOG, validation=())
    next(data.path.glob("train-00001-*")).unlink()
    with pytest.raises(UserError, match="train"):
        recorded_clicks(data.path)


def test_a_truncated_shard_is_an_error(tmp_path):
    data = write_data(tmp_path / "data", LOG, validation=())
    shard = next(data.path.glob("train-00000-*"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(UserError, match="train-00000"):
        recorded_clicks(data.path)
