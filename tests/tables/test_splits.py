import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.click_log import LogRow
from dssm_tf.tables.splits import is_held_out, split_by_time

ROWS = [LogRow(query, query, timestamp=time) for query, time in
        (("hat", "30"), ("tie", "4"), ("box", "200"))]  # fmt: skip


def test_the_latest_rows_are_split_off_by_number_or_by_date():
    earlier, later = split_by_time(ROWS, 1 / 3)
    # 4 < 30 < 200 as numbers; as text "200" would come before "30".
    assert [row.query for row in earlier] == ["tie", "hat"]
    assert [row.query for row in later] == ["box"]
    dates = [
        one._replace(timestamp=f"2024-0{n}-01") for n, one in zip((3, 1, 2), ROWS, strict=True)
    ]
    earlier, later = split_by_time(dates, 0.5)
    assert [row.query for row in [*earlier, *later]] == ["tie", "box", "hat"]


@given(st.permutations(range(12)))
def test_which_rows_of_equal_time_are_later_does_not_depend_on_their_order(order):
    rows = [LogRow(f"query {n // 2}", "hat", clicks=n, timestamp=str(n // 9)) for n in range(12)]
    expected = split_by_time(rows, 1 / 2)
    assert split_by_time([rows[place] for place in order], 1 / 2) == expected
    # Nine rows are of one time: the later ones are not the last in the log or the alphabet.
    assert {row.query for row in expected[1][:3]} != {"query 3", "query 4"}


def test_a_log_without_times_or_too_small_a_share_is_refused():
    with pytest.raises(UserError, match="1 of 3 rows have no timestamp"):
        split_by_time([*ROWS[:2], ROWS[2]._replace(timestamp="")], 0.5)
    with pytest.raises(UserError, match="3 are left to learn from and 0 to judge by"):
        split_by_time(ROWS, 0.01)


def test_held_out_queries_are_the_same_however_they_are_written():
    assert is_held_out("Red  HAT!", 0.5, "one") == is_held_out("red hat", 0.5, "one")
    held = sum(is_held_out(f"query {number}", 0.25, "one") for number in range(2000))
    assert 400 < held < 600  # 500 are expected; the standard deviation is below 20
    assert all(is_held_out(f"query {number}", 1.0, "one") for number in range(50))
    assert not any(is_held_out(f"query {number}", 0.0, "one") for number in range(50))


def test_two_purposes_hold_out_different_queries():
    of_one, of_another = (
        {n for n in range(200) if is_held_out(f"query {n}", 0.5, purpose)}
        for purpose in ("one", "another")
    )
    assert of_one != of_another
