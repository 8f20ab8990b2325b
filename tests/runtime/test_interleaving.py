"""Team-draft interleaving of two rankings."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dssm_tf
from dssm_tf.common.errors import UserError
from dssm_tf.runtime.interleaving import Interleaved, draft, team_draft

RANKINGS = st.lists(st.sampled_from("uvwxyz"), unique=True, max_size=6)


def every_draft(a, b, k) -> list[Interleaved]:
    """The lists of all sequences of coins, which have equal probability."""
    return [draft(a, b, k, iter(coins).__next__) for coins in product((True, False), repeat=k)]


def test_rounds_alternate_as_in_the_paper():
    # Round 1: a picks 1, b picks 2. Round 2: b picks 4, because 1 is in the list; a picks 3.
    coins = iter((True, False))
    result = draft([1, 2, 3, 5], [2, 1, 4, 6], 4, coins.__next__)
    assert result == ([1, 2, 4, 3], ["a", "b", "b", "a"])


@settings(max_examples=60, deadline=None)
@given(RANKINGS, RANKINGS, st.integers(1, 7))
@example(["u"], ["u", "v"], 2)
@example(["u", "v"], ["u"], 2)
def test_every_position_has_either_team_with_equal_probability(a, b, k):
    results = every_draft(a, b, k)
    for position in range(k):
        teams = [result.teams[position] for result in results if position < len(result.teams)]
        assert teams.count("a") == teams.count("b")
    for titles, teams in results:
        assert len(titles) == len(teams) == min(k, len({*a, *b}))
        assert len(titles) == len({*titles})
        # Each ranking keeps its order within its team.
        for team, ranking in (("a", a), ("b", b)):
            of_team = [t for t, name in zip(titles, teams, strict=True) if name == team]
            assert of_team == sorted(of_team, key=ranking.index)
        assert abs(teams.count("a") - teams.count("b")) <= 1


@settings(max_examples=30, deadline=None)
@given(RANKINGS, RANKINGS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_random_clicks_prefer_no_ranking(a, b, k, random):
    # Clicks that depend on the position only: each position has a value of its own.
    values = [random.random() for _ in range(k)]
    credit = np.zeros(2)
    for _, teams in every_draft(a, b, k):
        for value, team in zip(values, teams, strict=False):
            credit += value * np.array([team == "a", team == "b"])
    assert credit[0] == pytest.approx(credit[1])


def test_users_who_click_relevant_titles_prefer_the_better_ranking():
    relevant = {"r1", "r2"}
    better, worse = ["r1", "r2", "x", "y"], ["x", "y", "r1", "r2"]

    def expected_difference(a, b) -> float:
        differences = [
            sum(
                (team == "a") - (team == "b")
                for title, team in zip(titles, teams, strict=True)
                if title in relevant
            )
            for titles, teams in every_draft(a, b, 3)
        ]
        return sum(differences) / len(differences)

    # Round 1 has r1 of the better and x of the worse ranking. In round 2, r2 is the pick of the
    # better one, or of neither if the other picks y: it is in the list if the better picks first.
    assert expected_difference(better, worse) == 1.5
    assert expected_difference(worse, better) == -1.5
    assert expected_difference(better, better) == 0


def test_rounds_that_only_one_ranking_can_complete_have_no_team():
    assert draft(["p", "q", "r"], ["s"], 5, lambda: True) == (
        ["p", "s", "q", "r"], ["a", "b", "", ""],
    )  # fmt: skip
    # b cannot pick after a has picked its only title, so no round counts.
    assert draft(["p", "q"], ["p"], 5, lambda: False) == (["p", "q"], ["", ""])
    assert draft([], ["p"], 5, lambda: True) == (["p"], [""])
    assert team_draft([], []) == ([], [])


def test_repeated_ids_of_a_ranking_count_once():
    assert {*team_draft(["p", "p", "q"], ["q", "q"]).titles} == {"p", "q"}
    assert len(team_draft(["p", "p", "q"], ["q", "q"]).titles) == 2


def test_equal_rankings_are_not_changed():
    titles = [*range(10)]
    for seed in range(20):
        assert team_draft(titles, titles, seed=seed).titles == titles


def test_a_seed_gives_the_same_list_in_every_process():
    a, b = [*range(8)], [*range(8)][::-1]
    lists = [team_draft(a, b, 4, seed=f"search {n}") for n in range(50)]
    assert lists == [team_draft(a, b, 4, seed=f"search {n}") for n in range(50)]
    # Random(str) hashes with SHA-512, so that the lists do not depend on PYTHONHASHSEED.
    first = ["a" if Random(f"search {n}").random() < 0.5 else "b" for n in range(50)]
    assert [result.teams[0] for result in lists] == first
    assert 10 < sum(result.teams[0] == "a" for result in lists) < 40


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None])
def test_a_wrong_length_is_an_error(k):
    with pytest.raises(UserError, match="expected a whole number from 1"):
        team_draft(["p"], ["q"], k)


def test_a_text_is_not_a_ranking():
    with pytest.raises(UserError, match="b is the text 'pq'; expected a list of ids"):
        dssm_tf.team_draft(["p"], "pq")
