"""What a directory of records holds, read back."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.text.rules import FOLDED
from tests.clicks import Click, click_log, write_data

LOG = [Click("red hat", "Red Hat", 3), Click("hat", "Red Hat", 1), Click("box", "Blue Box", 2)]


def test_it_holds_every_pair_of_every_part_once(tmp_path):
    data = write_data(tmp_path / "data", LOG, validation={"hat"})
    assert Preprocessed(data.path).log() == [
        ("box", "Blue Box", 2.0), ("hat", "Red Hat", 1.0), ("red hat", "Red Hat", 3.0)
    ]  # fmt: skip


def test_a_missing_shard_is_an_error_and_not_a_smaller_log(tmp_path):
    data = write_data(tmp_path / "data", LOG, validation=())
    next(data.path.glob("train-00001-*")).unlink()
    with pytest.raises(UserError, match="train"):
        Preprocessed(data.path).log()


def test_a_truncated_shard_is_an_error(tmp_path):
    data = write_data(tmp_path / "data", LOG, validation=())
    shard = next(data.path.glob("train-00000-*"))
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(UserError, match="train-00000"):
        Preprocessed(data.path).log()


def test_titles_that_are_queries_too_know_what_was_clicked_for_them(tmp_path):
    log = [*click_log(), Click("red fox", "blue fox", 2), Click("red fox", "red owl"),
           Click("the box", "red fox")]  # fmt: skip
    data = write_data(tmp_path / "data", log)
    examples = [one for split in data.examples.values() for one in split]
    titles = {FOLDED.id(click.title) for click in log}
    wanted = {
        FOLDED.id(one.query): sorted(one.clicked_ids)
        for one in examples
        if FOLDED.id(one.query) in titles
    }
    found = Preprocessed(data.path).clicked_titles
    assert {query: sorted(found.of(query)) for query in wanted} == wanted
    assert len(wanted[FOLDED.id("red fox")]) == 2
