"""Two processes on one machine, by TF_CONFIG, against one process."""

from __future__ import annotations

import json

import pytest

from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.ports import free_ports
from tests.rounding import rounding
from tests.training.configuration import assert_near

pytestmark = pytest.mark.numeric

CONFIG = {
    "tower": {"name": "dssm", "widths": [8, 6]},
    "shared_towers": True,
    # Rivals that do not depend on how a step is cut into parts.
    "negatives": {"recorded": 2, "in_batch": False},
    # Small enough that steps do not make a rounding grow: at .5 one of 1e-7 becomes 1e-5.
    "optimizer": {"name": "sgd", "learning_rate": 0.1},
    "training": {"epochs": 2, "batch_size": 8, "click_weight": "log"},
}
# At most 12 steps add to weights of about 1 a sum over 8 pairs of 3 candidates each.
SAME = rounding(12 * 8 * 3, 1)


@pytest.fixture(scope="module")
def runs(data, folder, processes):
    """The run of one process, that of two, and how each of the three processes ended."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    tasks = [
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        for index in range(2)
    ]
    one, two = folder / "one process", folder / "two processes"
    started = [
        processes.start(CONFIG, data.path, two, environment={"TF_CONFIG": json.dumps(task)})
        for task in tasks
    ]
    ends = [run.wait() for run in started]
    return one, two, [*ends, processes.train(CONFIG, data.path, one)]


def test_two_processes_reach_the_losses_and_the_weights_of_one(runs):
    one, two, (chief, other, alone) = runs
    assert len(chief.result["history"]) == 2
    assert_near(one, two, alone.result["history"], chief.result["history"], SAME)
    for key in ("epochs", "best_epoch", "prior_weight"):
        assert chief.result[key] == other.result[key] == alone.result[key]


def test_the_first_of_two_processes_alone_speaks_and_writes_a_whole_run(runs):
    one, two, (chief, other, _) = runs
    assert "epoch   2/2" in chief.output
    assert "epoch " not in other.output
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
    assert SemanticRanker.load(two).score("red fox", ["red fox", "owl"]).shape == (2,)
