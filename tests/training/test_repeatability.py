"""`dssm train` gives the same bits in another process, after a kill, on two devices."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.model.run_files import is_finished
from dssm_tf.training.devices import use_xla
from dssm_tf.training.train import check_devices
from tests.graded.files import write
from tests.rounding import rounding
from tests.runs import finished_run
from tests.training.configuration import CONFIG, RECORDED, assert_near, config, equal


@pytest.mark.numeric
def test_a_seed_gives_the_same_weights_to_the_bit_in_another_process(run, data, folder, processes):
    found = processes.train(CONFIG, data.path, folder / "again")
    assert found.result["history"] == run[1].history
    assert equal(folder / "again", run[0])


KILLED = config(
    tower__ngram_dropout=0.1,
    negatives={"recorded": 2, "in_batch": True, "fresh": 1},
    # Too large, so that an early epoch stays the best and its weights must survive, too.
    optimizer__learning_rate=1.5,
    training__monitor="ndcg@10",
    training__epochs=3,
    training__averaging=0.5,
    training__click_weight="log",
)
STEPS = 6  # 41 records in batches of 8
ANYWHERE = int(np.random.default_rng().integers(1, STEPS))


@pytest.mark.parametrize(
    ("save_every", "more", "moments"),
    [
        (
            2,
            False,
            [
                ("titles.tsv", 1),  # making the run's directory
                ("batch", 3),  # in the first epoch, of which two steps are saved
                ("batch", 1),
                ("fit.npz", 4),  # in the midst of an epoch, or at its end
                ("batch", ANYWHERE),
                ("refit.npz", 1),
                ("versions.json", 1),  # with the weights written, and half of the rest
            ],
        ),
        pytest.param(
            1_000,
            True,
            [
                ("config.yaml", 1),
                ("batch", STEPS + ANYWHERE),
                ("fit.npz", 2),  # saving a later epoch
                ("batch", STEPS + ANYWHERE),  # training on
                ("model.weights.h5", 1),
                ("SHA256SUMS", 1),
            ],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["within epochs", "between epochs, with judgments, a teacher and an earlier run"],
)
def test_a_run_killed_again_and_again_ends_as_if_it_had_not_been(
    data, folder, processes, save_every, more, moments
):
    raw = KILLED | {"training": KILLED["training"] | {"refit": True, "save_every": save_every}}
    whole, killed = folder / f"whole-{save_every}", folder / f"killed-{save_every}"
    start = None
    if more:
        judged, scores = folder / "killed-judged.tsv", folder / "killed-scores.tsv"
        raw["judgments"] = {"file": str(write(judged, data)), "weight": 0.5}
        raw["teacher"] = {
            "file": str(write(scores, data, "score", seed=3)),
            "loss": {"name": "margin_mse"},
        }
        start = finished_run(folder / "killed-start", data, KILLED)
    uninterrupted = processes.train(raw, data.path, whole, start=start)
    assert uninterrupted.result["refitted"]
    for moment in moments:
        outcome = processes.train(raw, data.path, killed, start=start, die_at=moment)
        assert outcome.signal == signal.SIGKILL, (moment, outcome)
        assert not is_finished(killed)
    finished = processes.train(raw, data.path, killed, start=start)
    assert finished.result["history"] == uninterrupted.result["history"], moments
    assert equal(whole, killed), moments
    for name in ("ranking.json", "history.json", "MODEL_CARD.md"):
        assert (whole / name).read_text("utf-8") == (killed / name).read_text("utf-8")
    assert not (killed / "state").exists()


@pytest.mark.keras
@pytest.mark.numeric
def test_two_devices_take_the_same_steps_as_one(data, folder, processes):
    # The threshold is below most gradients: clipping what one replica sees would differ.
    optimizer = {"name": "nesterov", "learning_rate": 0.5, "clip_norm": 0.05,
                 "options": {"momentum": 0.9}}  # fmt: skip
    raw = config(
        negatives=RECORDED,
        tower__dropout=0.0,
        optimizer=optimizer,
        training__epochs=1,
        training__averaging=0.5,
    )
    runs = [
        processes.start(raw, data.path, folder / f"devices-{devices}", devices=devices)
        for devices in (1, 2)
    ]
    histories = [each.wait().result["history"] for each in runs]
    # 6 steps add to weights of about 1 a sum over 8 pairs of 3 candidates each.
    same = rounding(6 * 8 * 3, 1)
    assert_near(*(folder / f"devices-{devices}" for devices in (1, 2)), *histories, same)


def test_a_batch_size_that_the_devices_cannot_share_is_refused():
    with pytest.raises(
        UserError, match=r"training\.batch_size: 7 cannot be cut into 2 equal parts"
    ):
        check_devices(parse_config(config(training__batch_size=7)), SimpleNamespace(parts=2))


def test_a_step_of_several_cpus_is_not_compiled_by_xla():
    def compiled(xla, parts, gpus=False, workers=1):
        devices = SimpleNamespace(parts=parts, gpus=gpus, workers=workers)
        return use_xla(parse_config(config(training__xla=xla)), devices)

    assert not compiled("auto", 1)
    assert compiled("auto", 1, gpus=True)
    assert not compiled("auto", 2, gpus=True)
    assert compiled(True, 1)
    assert compiled(True, 2, gpus=True)
    assert not compiled(True, 2, gpus=True, workers=2)
    assert not compiled(True, 2)


def test_a_second_training_is_refused_and_the_first_ends_well(data, processes, tmp_path):
    out, long = tmp_path / "run", config(training__epochs=15, training__patience=15)
    first = processes.start(long, data.path, out)
    while not (out / "config.yaml").exists():
        time.sleep(0.02)
    second = processes.train(long, data.path, out)
    assert second.error == f"{out} is being written by another process."
    ended = first.wait()
    assert (ended.error, ended.result["epochs"]) == (None, 15)
    assert not (tmp_path / ".run.writing").exists()
