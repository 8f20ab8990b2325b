import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.retrieval.fusion import linear_fusion, reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), max_size=5)
tables = st.integers(1, 6).flatmap(
    lambda titles: st.lists(
        st.lists(st.integers(-20, 20), min_size=titles, max_size=titles), min_size=1, max_size=4
    )
)


def test_reciprocal_ranks_add_up_by_hand():
    fused = reciprocal_rank_fusion([["a", "b", "c"], ["b", "d"]])
    # b: 1/62 + 1/61; a: 1/61; d: 1/62; c: 1/63
    assert fused == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("d", 1 / 62), ("c", 1 / 63)]


def test_equal_sums_go_to_the_smaller_row():
    # 1/61 + 1/62 both
    assert [row for row, _ in reciprocal_rank_fusion([[7, 3], [3, 7]])] == [3, 7]


@given(rankings)
def test_the_order_of_the_rankings_does_not_count(lists):
    assert reciprocal_rank_fusion(lists) == reciprocal_rank_fusion(lists[::-1])


@given(st.lists(st.integers(), unique=True), st.integers(1, 4))
def test_rankings_that_agree_are_kept(ranking, copies):
    fused = reciprocal_rank_fusion([ranking] * copies)
    assert [row for row, _ in fused] == ranking


@given(rankings)
def test_every_title_comes_once_and_sums_fall(lists):
    fused = reciprocal_rank_fusion(lists)
    sums = [score for _, score in fused]
    assert sorted(row for row, _ in fused) == sorted(set().union(*lists))
    assert sums == sorted(sums, reverse=True)


def test_a_title_twice_in_one_ranking_is_refused():
    with pytest.raises(ValueError, match="twice"):
        reciprocal_rank_fusion([["a", "a"]])


def test_min_max_by_hand():
    # [2, 4, 3] -> [0, 1, .5]; [10, 0, 10] -> [1, 0, 1]; .25 and .75 of them
    fused = linear_fusion([[2, 4, 3], [10, 0, 10]], [0.25, 0.75])
    np.testing.assert_allclose(fused, [0.75, 0.25, 0.875])


def test_z_norm_by_hand():
    # [1, 3]: mean 2, deviation 1 -> [-1, 1]; [5, 1]: mean 3, deviation 2 -> [1, -1]
    fused = linear_fusion([[1, 3], [5, 1]], [1.0, 0.5], "z-norm")
    np.testing.assert_allclose(fused, [-0.5, 0.5])


@pytest.mark.parametrize("normalization", ["min-max", "z-norm"])
@given(table=tables, scale=st.integers(1, 9), shift=st.integers(-50, 50))
def test_a_systems_unit_and_zero_do_not_count(normalization, table, scale, shift):
    moved = [[scale * score + shift for score in table[0]], *table[1:]]
    one, other = (linear_fusion(scores, None, normalization) for scores in (table, moved))
    np.testing.assert_allclose(one, other, atol=1e-9)


@given(tables)
def test_a_title_that_no_system_prefers_less_is_never_behind(table):
    fused = linear_fusion(table)
    columns = np.array(table).T
    for i, left in enumerate(columns):
        for j, right in enumerate(columns):
            if (left >= right).all():
                assert fused[i] >= fused[j] - 1e-12


def test_a_system_without_an_opinion_changes_nothing():
    alone = linear_fusion([[1.0, 2.0, 4.0]], [1.0])
    np.testing.assert_array_equal(linear_fusion([[1.0, 2.0, 4.0], [7, 7, 7]], [1, 1]), alone)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "at least one system"),
        (([[1, 2], [1]],), "same titles"),
        (([[1, np.inf]],), "not finite"),
        (([[1, 2]], [0.5, 0.5]), "1 systems and 2 weights"),
        (([[1, 2]], None, "softmax"), "'min-max' or 'z-norm'"),
    ],
)
def test_what_cannot_be_fused_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        linear_fusion(*arguments)


def test_no_title_gives_no_score():
    assert linear_fusion([[], []]).shape == (0,)
