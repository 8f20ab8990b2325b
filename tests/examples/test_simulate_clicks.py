"""Simulated users click as their models say."""

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
    """Click rates of the list a, b, c, each title at a position of its own."""
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
        # To the first click: b is seen by the 60 % who did not click a, and takes all of them.
        (Users("cascade", 0), [0.4, 0.6 * 1.0, 0]),
        (Users("cascade", 1), [0.4, 0.5 * 0.6 * 1.0, 0]),
        # And a share 0.3 / k of those who would not have clicked.
        (Users("trust", 1), [0.4 + 0.6 * 0.3, 1 / 2, (0.1 + 0.9 * 0.1) / 3]),
    ],
)
def test_click_rates_are_those_of_the_model(users, expected):
    found = rates(users)
    assert found == approx(np.array(expected), abs=0.006)  # five standard deviations
    assert (found > 0).tolist() == [rate > 0 for rate in expected]


def test_every_session_shows_a_list_once():
    rows = list(simulate(lists(20), Users(), 5000, length=4))
    for position in range(1, 5):
        assert sum(row.impressions for row in rows if row.position == position) == 5000
    assert max(row.position for row in rows) == 4


def test_titles_move_between_rankers_alone():
    def moved(**options):
        places = {}
        for row in simulate(lists(20), Users(), 5000, **options):
            places.setdefault((row.query, row.title), set()).add(row.position)
        return sum(len(one) > 1 for one in places.values())

    assert moved(rankers=1) == moved(rankers=3, ranker_noise=0) == 0
    assert moved(rankers=3) > 50


def test_what_is_shown_depends_neither_on_grades_nor_on_users():
    blind = [one._replace(grades=one.grades[::-1].copy()) for one in lists(20)]
    shows = [
        [row[:-1] for row in simulate(given, users, 5000)]
        for given, users in ((lists(20), Users()), (blind, Users()), (blind, Users("trust", 2)))
    ]
    assert shows[0] == shows[1] == shows[2]


def test_lists_without_a_good_title_are_refused():
    with pytest.raises(UserError, match="no grade is above 0"):
        list(simulate([LIST._replace(grades=np.zeros(3))], Users(), 10))


@pytest.mark.slow
def test_preprocess_finds_the_curve_of_a_log_that_the_script_made(tmp_path):
    """As a reader runs it, in a process of its own."""
    judgments, log, data = (tmp_path / name for name in ("judgments.tsv", "log.tsv", "data"))
    judged = (
        f"red fox {query}\t{'red ' * (title % 2)}fox {title}\t{title % 3}\n"
        for query in range(60)
        for title in range(5)
    )
    judgments.write_text("".join(["query\ttitle\tgrade\n", *judged]), "utf-8")
    flags = f"--judgments {judgments} --lists 50 --sessions 30000 --length 4 --out {log}"
    command = [sys.executable, "examples/simulate_clicks.py", *flags.split()]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "probability 1, 0.5, 0.333, 0.25\n" in done.stdout
    rows = [line.split("\t") for line in log.read_text("utf-8").splitlines()[1:]]
    assert len({row[0] for row in rows}) == 50
    assert sum(int(row[3]) for row in rows if row[2] == "1") == 30_000
    assert subprocess.run(command, check=False, capture_output=True).returncode == 1  # it exists
    flags = f"--input {log} --position-weights harvesting --output {data}"
    assert preprocess.run(flags.split()) == 0
    found = read_curve(data / "examination_curve.tsv").propensities
    assert found == approx([1, 1 / 2, 1 / 3, 1 / 4], abs=0.05)
