"""Small runs of every tower, and one with the score maxsim."""

import functools

import pytest

from dssm_tf.model.semantic_ranker import SemanticRanker
from tests.clicks import Click, click_log, write_data
from tests.components import TOWER_CONFIGS, small_sizes
from tests.runs import finished_run

ROWS = [
    Click("battlefield three", "battlefield 3 limited edition", 9),
    Click("box", "x box game", 3),
    Click("red fox", "red fox", 2),
]


MAXSIM = {
    "tower": {"name": "words", "units": 8},
    "score": {"name": "maxsim", "text_cosine": 0.5, "text_units": 4},
    "shared_towers": True,
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Returns a function from a tower's name, or `maxsim`, to its run, written on first use."""
    folder = tmp_path_factory.mktemp("analyzed")
    data = write_data(folder / "data", [*click_log(), *ROWS])

    @functools.cache
    def run(name):
        if name == "maxsim":
            return finished_run(folder / name, data, MAXSIM)
        tower = {"name": name, **small_sizes(TOWER_CONFIGS[name])}
        return finished_run(folder / name, data, {"tower": tower})

    return run


@pytest.fixture(scope="session")
def rankers(runs):
    return functools.cache(lambda name: SemanticRanker.load(runs(name)))
