"""Two processes on one machine, by TF_CONFIG, against one process."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import h5py
import numpy as np
import pytest
from pytest import approx

from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.clicks import click_log, write_data
from tests.rounding import rounding
from tests.training.processes import training_processes

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


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run of one process, that of two, and how each of the three processes ended."""
    folder = tmp_path_factory.mktemp("distributed")
    (folder / "processes").mkdir()
    data = write_data(folder / "data", click_log()).path
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    with training_processes(folder / "processes") as processes:
        started = [
            processes.start(
                CONFIG,
                data,
                folder / "two",
                environment={
                    "TF_CONFIG": json.dumps(
                        {"cluster": cluster, "task": {"type": "worker", "index": index}}
                    )
                },
            )
            for index in range(2)
        ]
        ends = [run.wait() for run in started]
        ends.append(processes.train(CONFIG, data, folder / "one"))
    return folder / "one", folder / "two", ends


def history(run: Path) -> list[dict[str, float]]:
    return json.loads((run / "history.json").read_text("utf-8"))


def test_two_processes_reach_the_losses_of_one(runs):
    one, two, _ = runs
    assert len(history(two)) == 2
    for alone, together in zip(history(one), history(two), strict=True):
        assert together == approx(alone, abs=10 * SAME)  # gamma is 10


def test_two_processes_reach_the_weights_of_one(runs):
    one, two, _ = runs
    with h5py.File(one / "model.weights.h5") as a, h5py.File(two / "model.weights.h5") as b:
        names = []
        a.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        for name in names:
            assert np.asarray(b[name]) == approx(np.asarray(a[name]), abs=SAME), name


def test_both_processes_know_the_result_and_only_the_first_speaks(runs):
    chief, other, alone = runs[2]
    for key in ("epochs", "best_epoch", "prior_weight"):
        assert chief.result[key] == other.result[key] == alone.result[key]
    assert "epoch   2/2" in chief.output
    assert "epoch " not in other.output


def test_the_run_of_two_processes_is_complete(runs):
    one, two, _ = runs
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
    assert SemanticRanker.load(two).score("red fox", ["red fox", "owl"]).shape == (2,)
