"""Simulated clicks follow the click models."""

import subprocess
import sys

import numpy as np
import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.positions.curve import read_curve
from examples.simulate_clicks import JudgedList, Users, simulate
from pipelines import preprocess
from tests.positions.judged import lists

TITLES = ["a", "b", "c"]
LIST = JudgedList("q", TITLES, np.array([1.0, 2.0, 0.0]), np.array([3.0, 2.0, 1.0]))
# noise + (1 - noise) (2^grade - 1) / 3 with noise 0.1
RELEVANCE = np.array([0.4, 1.0, 0.1])


def rates(users):
    """Click rates of the titles a, b, c at positions 1, 2, 3."""
    rows = list(simulate([LIST], users, 200_000, rankers=1, ranker_noise=0, seed=3))
    assert [(row.title, row.position, row.impressions) for row in rows] == [
        ("a", 1, 200_000), ("b", 2, 200_000), ("c", 3, 200_000)
    ]  # fmt: skip
    return np.array([row.clicks / row.impressions for row in rows])


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        (Users("position", 0), RELEVANCE),
        (Users("position", 2), RELEVANCE / [1, 4, 9]),
        # Up to the first click: the 60 % without a click on a examine b, and all of them click it.
        (Users("cascade", 0), [0.4, 0.6 * 1.0, 0]),
        (Users("cascade", 1), [0.4, 0.5 * 0.6 * 1.0, 0]),
        # Plus a fraction 0.3 / k of the sessions without a click for relevance.
        (Users("trust", 1), [0.4 + 0.6 * 0.3, 1 / 2, (0.1 + 0.9 * 0.1) / 3]),
    ],
)
def test_click_rates_equal_those_of_the_model(users, expected):
    actual = rates(users)
    assert actual == approx(np.array(expected), abs=0.006)  # five standard deviations
    assert (actual > 0).tolist() == [rate > 0 for rate in expected]


def test_every_session_has_one_impression_per_position():
    rows = list(simulate(lists(20), Users(), 5000, length=4))
    for position in range(1, 5):
        assert sum(row.impressions for row in rows if row.position == position) == 5000
    assert max(row.position for row in rows) == 4


def test_titles_have_several_positions_only_with_several_rankers():
    def titles_at_several_positions(**options):
        positions = {}
        for row in simulate(lists(20), Users(), 5000, **options):
            positions.setdefault((row.query, row.title), set()).add(row.position)
        return sum(len(title_positions) > 1 for title_positions in positions.values())

    assert titles_at_several_positions(rankers=1) == 0
    assert titles_at_several_positions(rankers=3, ranker_noise=0) == 0
    assert titles_at_several_positions(rankers=3) > 50


def test_impressions_depend_neither_on_grades_nor_on_users():
    other = [judged._replace(grades=judged.grades[::-1].copy()) for judged in lists(20)]
    impressions = [
        [row[:-1] for row in simulate(judged, users, 5000)]
        for judged, users in ((lists(20), Users()), (other, Users()), (other, Users("trust", 2)))
    ]
    assert impressions[0] == impressions[1] == impressions[2]


def test_lists_without_a_relevant_title_are_rejected():
    with pytest.raises(UserError, match="no grade is above 0"):
        list(simulate([LIST._replace(grades=np.zeros(3))], Users(), 10))


@pytest.mark.slow
def test_preprocess_estimates_the_curve_of_a_simulated_log(tmp_path):
    # In a separate process, as on the command line.
    judgments, log, data = (tmp_path / name for name in ("judgments.tsv", "log.tsv", "data"))
    judged = (
        f"red fox {query}\t{'red ' * (title % 2)}fox {title}\t{title % 3}\n"
        for query in range(60)
        for title in range(5)
    )
    judgments.write_text("".join(["query\ttitle\tgrade\n", *judged]), "utf-8")
    flags = f"--judgments {judgments} --lists 50 --sessions 30000 --length 4 --out {log}"
    command = [sys.executable, "examples/simulate_clicks.py", *flags.split()]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "probability 1, 0.5, 0.333, 0.25\n" in process.stdout
    rows = [line.split("\t") for line in log.read_text("utf-8").splitlines()[1:]]
    assert len({row[0] for row in rows}) == 50
    assert sum(int(row[3]) for row in rows if row[2] == "1") == 30_000
    assert (
        subprocess.run(command, check=False, capture_output=True).returncode == 1
    )  # the file exists
    flags = f"--input {log} --position-weights harvesting --output {data}"
    assert preprocess.run(flags.split()) == 0
    propensities = read_curve(data / "examination_curve.tsv").propensities
    assert propensities == approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.05)
