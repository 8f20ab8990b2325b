"""What `dssm tune` tries: values, ranges, grids, draws."""

from __future__ import annotations

import math
from itertools import islice

import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.tuning.space import Range, Values, grid_settings, parse_space, random_settings


def test_a_list_of_values_is_yaml():
    space = parse_space(
        ["tower.widths=[300],[300, 128]", "optimizer.clip_norm=null,1.5", "training.monitor=loss"]
    )
    assert space == {
        "tower.widths": Values(([300], [300, 128])),
        "optimizer.clip_norm": Values((None, 1.5)),
        "training.monitor": Values(("loss",)),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gamma=5:20", Range(5, 20, log=False, whole=True)),
        ("gamma=5.0:20", Range(5.0, 20.0, log=False, whole=False)),
        ("x=log:3e-4:1e-2", Range(0.0003, 0.01, log=True, whole=False)),
        ("tower.cells=log:16:256", Range(16, 256, log=True, whole=True)),
        ("x=-1:1", Range(-1, 1, log=False, whole=True)),
    ],
)
def test_a_range_has_two_ends_and_may_be_logarithmic(text, expected):
    (found,) = parse_space([text]).values()
    assert found == expected
    assert type(found.low) is (int if expected.whole else float)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["gamma"], "expected KEY=VALUE,VALUE"),
        (["=5"], "expected KEY=VALUE,VALUE"),
        (["gamma="], "expected one or more YAML values"),
        (["gamma=5,,10"], "expected one or more YAML values"),
        (["gamma=[5"], "expected one or more YAML values"),
        (["gamma=5,10:20"], "one range, LOW:HIGH or log:LOW:HIGH, or a list"),
        (["gamma=log:a:b"], "one range, LOW:HIGH or log:LOW:HIGH, or a list"),
        (["gamma=20:5"], "from a smaller to a larger number"),
        (["gamma=log:0:5"], "must start above 0"),
        (["gamma=5", "gamma=10"], "gamma was given before"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_quotes_it(grid, message):
    with pytest.raises(UserError) as error:
        parse_space(grid)
    assert message in str(error.value)
    assert repr(grid[-1]) in str(error.value)


def test_a_grid_is_every_combination_the_last_key_fastest():
    space = parse_space(["gamma=5,10", "tower.name=dssm,lstm"])
    assert list(grid_settings(space)) == [
        {"gamma": 5, "tower.name": "dssm"},
        {"gamma": 5, "tower.name": "lstm"},
        {"gamma": 10, "tower.name": "dssm"},
        {"gamma": 10, "tower.name": "lstm"},
    ]


def test_a_share_of_a_range_is_the_number_at_that_place():
    assert Range(4.0, 8.0, log=False, whole=False).pick(0.25) == 5.0
    # A quarter of the way from 1e-4 to 1 in logarithms is 1e-3.
    assert Range(1e-4, 1.0, log=True, whole=False).pick(0.25) == 0.001
    # Three significant digits, but never outside: 1.2344 would be 1.23.
    assert Range(1.2344, 2.0, log=False, whole=False).pick(0.0) == 1.2344
    assert Range(1.0, 2.0, log=False, whole=False).pick(1 / 3) == 1.33
    # 5, 6 and 7 have a third each.
    whole = Range(5, 7, log=False, whole=True)
    assert [whole.pick(share) for share in (0.0, 0.33, 0.34, 0.66, 0.67, 0.999)] == [
        5, 5, 6, 6, 7, 7,
    ]  # fmt: skip
    # 1 and 2 and 3, up to just below 4: ln 2 / ln 4 = 1/2 of the draws are 1.
    ratios = Range(1, 3, log=True, whole=True)
    assert [ratios.pick(share) for share in (0.0, 0.49, 0.51, 0.999)] == [1, 1, 2, 3]
    assert type(ratios.pick(0.5)) is int


def test_draws_are_the_seeds_and_do_not_depend_on_their_number_or_the_order_of_keys():
    keys = ["gamma=5:20", "optimizer.learning_rate=log:0.0003:0.01", "tower.cells=32,64"]
    space, reverse = parse_space(keys), parse_space(keys[::-1])
    first = list(islice(random_settings(space, seed=7), 4))
    assert list(islice(random_settings(space, seed=7), 40))[:4] == first
    assert list(islice(random_settings(reverse, seed=7), 4)) == first
    assert list(islice(random_settings(space, seed=8), 4)) != first
    drawn = list(islice(random_settings(space, seed=7), 400))
    assert {type(one["gamma"]) for one in drawn} == {int}
    assert {one["gamma"] for one in drawn} == set(range(5, 21))
    assert {one["tower.cells"] for one in drawn} == {32, 64}
    rates = [one["optimizer.learning_rate"] for one in drawn]
    assert min(rates) >= 0.0003
    assert max(rates) <= 0.01
    # Uniform in logarithms: half of the draws lie below the geometric mean of the ends, give or
    # take four standard deviations of 400 coins, 4 * sqrt(400) / 2 = 40.
    assert sum(rate < math.sqrt(0.0003 * 0.01) for rate in rates) == approx(200, abs=40)
