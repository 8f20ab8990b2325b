"""`dssm train` has the same result, to the bit, after kills as without."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from dssm_tf.config import parse_config
from dssm_tf.model.run_files import is_finished
from dssm_tf.training.train import train
from tests.data.graded.files import write
from tests.runs import finished_run
from tests.training.configuration import config, equal

pytestmark = pytest.mark.long  # trainings

RAW_CONFIG = config(
    tower__ngram_dropout=0.1,
    negatives={"recorded": 2, "in_batch": True, "fresh": 1},
    # Too large, so that an early epoch stays the best and its weights must be restored.
    optimizer__learning_rate=1.5,
    training__monitor="ndcg@10",
    training__epochs=3,
    training__averaging=0.5,
    training__click_weight="log",
)
STEPS = 6  # 41 records in batches of 8
RANDOM_STEP = int(np.random.default_rng().integers(1, STEPS))


@pytest.mark.numeric
@pytest.mark.parametrize(
    ("save_every", "has_judgments_teacher_and_start", "moments"),
    [
        (
            2,
            False,
            [
                ("batch", 2 + RANDOM_STEP),  # two steps or more are saved
                ("refit.npz", 1),
            ],
        ),
        pytest.param(
            1_000,
            True,
            [
                ("titles.tsv", 1),  # making the run's directory
                ("config.yaml", 1),
                ("batch", STEPS + RANDOM_STEP),
                ("fit.npz", 2),  # saving a later epoch
                ("batch", STEPS + RANDOM_STEP),  # training after a checkpoint
                ("model.weights.h5", 1),
                ("versions.json", 1),  # after the weights, before the last files
                ("SHA256SUMS", 1),
            ],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["within epochs", "between epochs, with judgments, a teacher and an earlier run"],
)
def test_a_run_killed_several_times_equals_an_uninterrupted_run(
    data, folder, processes, save_every, has_judgments_teacher_and_start, moments
):
    raw = RAW_CONFIG | {
        "training": RAW_CONFIG["training"] | {"refit": True, "save_every": save_every}
    }
    expected, killed = folder / f"uninterrupted-{save_every}", folder / f"killed-{save_every}"
    start = None
    if has_judgments_teacher_and_start:
        judged, scores = folder / "killed-judged.tsv", folder / "killed-scores.tsv"
        raw["judgments"] = {"file": str(write(judged, data)), "weight": 0.5}
        raw["teacher"] = {
            "file": str(write(scores, data, "score", seed=3)),
            "loss": {"name": "margin_mse"},
        }
        start = finished_run(folder / "killed-start", data, RAW_CONFIG)
    uninterrupted = train(parse_config(raw), data.path, expected, start=start, quiet=True)
    assert uninterrupted.refitted
    for moment in moments:
        outcome = processes.train(raw, data.path, killed, start=start, die_at=moment)
        assert outcome.signal == signal.SIGKILL, (moment, outcome)
        assert not is_finished(killed)
    finished = processes.train(raw, data.path, killed, start=start)
    assert finished.result["history"] == uninterrupted.history, moments
    assert equal(expected, killed), moments
    for name in ("ranking.json", "history.json", "MODEL_CARD.md"):
        assert (expected / name).read_text("utf-8") == (killed / name).read_text("utf-8")
    assert not (killed / "state").exists()
