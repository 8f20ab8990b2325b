"""Trainings with hard negatives: from a table, or mined by the model itself between epochs."""

from __future__ import annotations

import numpy as np
import pytest

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.tables.hard_negatives import write_hard_negatives
from dssm_tf.training.mining import Remining, read_mined
from dssm_tf.training.train import train
from tests.training.configuration import config, equal

NEGATIVES = {"mined": 2, "mine_every": 2, "mine_ranks": [1, 4]}
RAW = config(
    negatives=NEGATIVES,
    training__epochs=5,
    training__patience=5,
    training__averaging=0.5,
    training__refit="continue",
)


@pytest.fixture(scope="module")
def minings():
    """The pairs of every mining of a training, in order."""
    found: list[np.ndarray] = []
    known = Remining.after

    def watched(*arguments):
        found.append(known(*arguments))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Remining, "after", watched)
        yield found


@pytest.fixture(scope="module")
def whole(data, folder, minings):
    out = folder / "remined"
    return out, train(parse_config(RAW), data.path, out, quiet=True), list(minings)


@pytest.mark.slow
def test_the_model_mines_anew_after_every_so_many_epochs_and_finds_other_titles(whole):
    # After epochs 2 and 4; going on with all records, for four or less, it begins with mining.
    _, result, found = whole
    epochs = -(-result.best_epoch * 2 // 3)
    assert len(found) == 2 + -(-epochs // 2)
    assert not np.array_equal(found[0], found[1])
    assert "2 a query of those mined for it, anew after each 2 epochs" in (
        whole[0] / "MODEL_CARD.md"
    ).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.numeric
def test_a_run_that_is_interrupted_between_two_minings_ends_as_if_it_had_not_been(
    whole, data, tmp_path
):
    def stop(phase, done, epochs):
        if phase == "fit" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parse_config(RAW), data.path, tmp_path / "cut", quiet=True, told=stop)
    train(parse_config(RAW), data.path, tmp_path / "cut", quiet=True)
    assert equal(whole[0], tmp_path / "cut")


def test_a_stage_goes_on_from_the_weights_and_not_from_their_averages(
    data, folder, run, monkeypatch
):
    """Mining that finds the same each time must leave a training as it is without stages."""
    table = folder / "same.tsv"
    dssm_tf.mine(data.path, table, bm25=True)
    raw = config(negatives={"mined": 3, "mined_from": str(table)}, training__averaging=0.5)
    once = train(parse_config(raw), data.path, folder / "once", quiet=True)
    # Three more rivals, each of them hard: the same records cost more.
    assert once.history[0]["loss"] > run[1].history[0]["loss"]
    raw["negatives"]["mine_every"] = 1
    monkeypatch.setattr(
        Remining,
        "after",
        lambda self, phase, epoch: read_mined(self._negatives, self._data),
    )
    staged = train(parse_config(raw), data.path, folder / "staged", quiet=True)
    assert [one["loss"] for one in staged.history] == [one["loss"] for one in once.history]
    assert equal(folder / "once", folder / "staged")


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_table_than_it_began_with(data, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    table, out = tmp_path / "mined.tsv", tmp_path / "run"
    rows = dssm_tf.mine(data.path, table, bm25=True)
    raw = parse_config(config(negatives={"mined": 2, "mined_from": str(table)}))
    with pytest.raises(KeyboardInterrupt):
        train(raw, data.path, out, quiet=True, told=stop)
    write_hard_negatives(table, rows[1:])
    with pytest.raises(UserError, match=r"mined.tsv is not what it was when the run began"):
        train(raw, data.path, out, quiet=True)
    write_hard_negatives(table, rows[::-1])  # the order says nothing
    assert train(raw, data.path, out, quiet=True).epochs == 2


@pytest.mark.parametrize(
    ("negatives", "says"),
    [
        ({"mined": 2}, "mined_from or mine_every, belong together"),
        ({"mine_every": 2}, "mined_from or mine_every, belong together"),
        ({"mined": 2, "mine_every": 2, "mine_ranks": [9, 3]}, "first rank should not be behind"),
        ({"mined": 2, "mine_every": 2, "mine_margin": 1.5}, "mine_margin: .* less than 1"),
        ({"mined": 2, "mine_every": 2, "in_batch": False}, "the click needs rivals"),
        ({"mined": 2, "mined_from": "nowhere.tsv"}, "nowhere.tsv cannot be read"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_anything_is_written(
    data, tmp_path, negatives, says
):
    with pytest.raises(UserError, match=says):
        train(parse_config(config(negatives=negatives)), data.path, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_keras_s_own_fit_does_not_mine(data):
    settings = ["negatives.mined=2", "negatives.mine_every=2"]
    with pytest.raises(UserError, match=r"mine_every is of `dssm train`.*dssm_tf\.mine"):
        dssm_tf.ClickData(data.path, "dssm", settings)
