"""Valid cells, and the reasons to reject others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.tables.cells import (
    MAX_COUNT,
    BadRow,
    clean_text,
    count,
    grade,
    identifier,
    number,
    one_line,
)


def reason(check, *values):
    with pytest.raises(BadRow) as caught:
        check(*values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("many", "is not a number"),
        ("1_0", "is not a number"),
        ("1,00", "is not a number"),
        (True, "is not a number"),
        ([1], "is not a number"),
        ("-1", "is negative"),
        (-3, "is negative"),
        ("nan", "is not finite"),
        (float("nan"), "is not finite"),
        ("inf", "is not finite"),
        ("9" * 5000, "is not finite"),
        ("2.5", "is not a whole number"),
        ("1e300", "is too large"),
        (10**400, "is too large"),
        (str(MAX_COUNT + 1), "is too large"),
    ],
)
def test_a_value_that_is_not_a_count_is_rejected_with_a_reason(value, expected):
    assert reason(count, value, "clicks", 1) == f"clicks {expected}"


def test_the_smallest_the_largest_and_the_missing_count():
    assert count("0", "clicks", 1) == 0
    assert count(str(MAX_COUNT), "clicks", 1) == count(MAX_COUNT, "clicks", 1) == MAX_COUNT
    assert count(None, "clicks", 7) == count("", "clicks", 7) == count(" ", "clicks", 7) == 7


@given(st.integers(0, MAX_COUNT), st.sampled_from(["{}", " {} ", "{}.0", "+{}", "0{}"]))
def test_integers_are_read_in_all_spellings(value, form):
    assert count(form.format(value), "clicks", 1) == value


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none()))
def test_any_value_is_a_count_or_a_bad_row(value):
    try:
        result = count(value, "clicks", 1)
    except BadRow:
        return
    assert isinstance(result, int)
    assert 0 <= result <= MAX_COUNT


def test_clean_text_replaces_line_breaks_and_rejects_empty_texts():
    assert clean_text(" a\tb\r\nc ", "title") == "a b  c"
    assert reason(clean_text, "  ", "title") == "empty title"
    assert reason(clean_text, None, "title") == "no title"
    assert reason(clean_text, 5, "title") == "title is not text"
    assert reason(clean_text, "\ud800", "title") == "bad UTF-8"


def test_an_id_is_a_text_or_an_integer():
    assert (identifier("007", "id"), identifier(7, "id")) == ("007", "7")
    for value in (None, 7.0, True, ["7"]):
        assert reason(identifier, value, "id") == "no id"


@pytest.mark.parametrize(
    "value", ["good", "-1", "nan", "inf", "100.5", "1_0", True, None, [1], 10**400]
)
def test_a_grade_is_a_number_from_0_to_100(value):
    with pytest.raises(BadRow) as caught:
        grade(value, "grade")
    assert repr(value)[:40] in caught.value.detail
    assert "number" in caught.value.detail
    assert (grade("0"), grade(1.33), grade("100")) == (0.0, 1.33, 100.0)


def test_a_score_may_be_infinite_but_not_nan():
    assert number("-inf", "score") == -float("inf")
    assert reason(number, "nan", "score") == "score is not a number"


@given(st.text())
def test_line_breaks_and_tabs_become_spaces_and_other_characters_stay(value):
    result = one_line(value)
    assert not set(result) & {"\t", "\n", "\r"}
    assert (result.split(), len(result)) == (value.split(), len(value))


def test_surrogates_become_replacement_characters():
    assert one_line("half \ud800, ż") == "half \N{REPLACEMENT CHARACTER}, ż"
