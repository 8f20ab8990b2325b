"""Two processes on one machine, configured by TF_CONFIG, train as one process does."""

from __future__ import annotations

import json

import pytest

from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.ports import free_ports
from tests.rounding import rounding_bound
from tests.training.configuration import assert_near

pytestmark = [pytest.mark.long, pytest.mark.numeric]

CONFIG = {
    "tower": {"name": "dssm", "widths": [8, 6]},
    "shared_towers": True,
    # Negatives that do not depend on how a step is divided among replicas.
    "negatives": {"recorded": 2, "in_batch": False},
    # A small rate, so that rounding errors do not grow: at .5, an error of 1e-7 becomes 1e-5.
    "optimizer": {"name": "sgd", "learning_rate": 0.1},
    "training": {"epochs": 2, "batch_size": 8, "click_weight": "log"},
}
# At most 12 steps, each of which adds a sum over 8 pairs of 3 candidates to weights of about 1.
TOLERANCE = rounding_bound(12 * 8 * 3, 1)


@pytest.fixture(scope="module")
def runs(data, folder, processes):
    """The run of one process, the run of two, and the outcomes of the three processes."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    tasks = [
        {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        for index in range(2)
    ]
    run_of_one, run_of_two = folder / "one process", folder / "two processes"
    started = [
        processes.start(CONFIG, data.path, run_of_two, environment={"TF_CONFIG": json.dumps(task)})
        for task in tasks
    ]
    outcomes = [run.wait() for run in started]
    return run_of_one, run_of_two, [*outcomes, processes.train(CONFIG, data.path, run_of_one)]


def test_two_processes_reach_the_losses_and_the_weights_of_one(runs):
    run_of_one, run_of_two, (chief, worker, single) = runs
    assert len(chief.result["history"]) == 2
    assert_near(
        run_of_one, run_of_two, single.result["history"], chief.result["history"], TOLERANCE
    )
    for key in ("epochs", "best_epoch", "prior_weight"):
        assert chief.result[key] == worker.result[key] == single.result[key]


def test_only_the_first_of_two_processes_prints_and_writes_the_run(runs):
    run_of_one, run_of_two, (chief, worker, _) = runs
    assert "epoch   2/2" in chief.output
    assert "epoch " not in worker.output
    files_of_one, files_of_two = (
        {path.name for path in run.iterdir()} for run in (run_of_one, run_of_two)
    )
    assert files_of_two == files_of_one
    assert SemanticRanker.load(run_of_two).score("red fox", ["red fox", "owl"]).shape == (2,)
