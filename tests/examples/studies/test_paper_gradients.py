"""`examples.studies.paper_gradients` on a small untrained run."""

import re

import pytest

from examples.studies.paper_gradients import main
from tests.clicks import click_log, write_data
from tests.components import TOWER_CONFIGS, small_sizes
from tests.runs import finished_run


@pytest.mark.slow
def test_the_gradients_of_the_paper_differ_from_the_full_gradients(tmp_path, capsys):
    data = write_data(tmp_path / "data", click_log(), validation=())
    tower = {"name": "lstm", **small_sizes(TOWER_CONFIGS["lstm"])}
    run = finished_run(tmp_path / "run", data, {"tower": tower})
    main(["--model", str(run)])
    cosines = re.findall(r"(untrained|trained): cosine (\S+)", capsys.readouterr().out)
    assert [name for name, _ in cosines] == ["untrained", "trained"]
    for _, cosine in cosines:
        assert 0.5 < float(cosine) < 1
