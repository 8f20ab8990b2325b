"""Time stamps of one kind are ordered; others are refused."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssm_tf.common.errors import UserError
from dssm_tf.tables.times import TimeParser


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2024-01-30", "2024-01-31"),
        ("2024-01-31 12:00", "2024-01-31T12:00:05.25"),
        ("20240131T120000", "20240131T120001"),
        # 11:00 in Paris is 10:00 in London.
        ("2024-01-31 11:00:00+01:00", "2024-01-31T10:01Z"),
        ("999999999", "1e9"),
        ("1000000000000", "1000000000001.5"),
        ("20240131", "20240201"),
        ("7", "30.5"),
        ("1704190000000000000", "1704190000000000001"),
        ("2024-01-31 10:00:00.123456788", "2024-01-31 10:00:00.123456789"),
    ],
)
def test_iso_8601_and_times_since_1970_are_ordered(earlier, later):
    parse_time = TimeParser()
    first, second = parse_time(earlier), parse_time(later)
    assert first < second


@given(
    st.lists(st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)), min_size=2, max_size=9),
    st.sampled_from(["iso", "compact", "s", "ms"]),
)
def test_the_numbers_have_the_order_of_the_times(moments, form):
    moments = [time.replace(microsecond=time.microsecond // 1000 * 1000) for time in moments]
    since = [(time - datetime(1970, 1, 1)) // timedelta(milliseconds=1) for time in moments]
    cells = {
        "iso": [time.isoformat(" ", "milliseconds") for time in moments],
        "compact": [time.strftime("%Y%m%dT%H%M%S.") + f"{time.microsecond:06}" for time in moments],
        "s": [f"{milliseconds / 1000:.3f}" for milliseconds in since],
        "ms": [str(milliseconds) for milliseconds in since],
    }[form]
    numbers = [*map(TimeParser(), cells)]
    for i, j in combinations(range(len(moments)), 2):
        assert (numbers[i] < numbers[j]) == (moments[i] < moments[j])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1700000000", "2024-01-31"], ["'1700000000' is seconds", "'2024-01-31' is a date"]),
        (["1700000000", "1700000000123"], ["is seconds", "'1700000000123' is milliseconds"]),
        (["2024-01-31", "2024-01-31 12:00"], ["is a date", "is a time without a zone"]),
        (["2024-01-31 12:00", "2024-01-31 12:00Z"], ["without a zone", "is a time with a zone"]),
        (["31/01/2024"], ["'31/01/2024' is neither ISO 8601", "nor a time since 1970"]),
        (["2024-02-30"], ["'2024-02-30' is neither"]),
        (["2024-01-31 25:00"], ["is neither"]),
        (["yesterday"], ["is neither"]),
        (["<value out of range: 1000000000000000000>"], ["is neither"]),
        ([""], ["the timestamp is empty"]),
    ],
)  # fmt: skip
def test_mixed_or_unreadable_time_stamps_are_refused_with_examples(cells, words):
    parse_time = TimeParser()
    with pytest.raises(UserError) as caught:
        [*map(parse_time, cells)]
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@given(st.text())
def test_any_text_is_a_time_or_an_error(text):
    with suppress(UserError):
        TimeParser()(text)
