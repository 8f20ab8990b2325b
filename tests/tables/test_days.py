"""The days of timestamps."""

from __future__ import annotations

from datetime import date

import polars as pl
import pytest

from dssm_tf.tables.times import to_days

NOON = 1_706_702_400  # 2024-01-31 12:00 UTC


@pytest.mark.parametrize(
    "cell",
    ["2024-01-31", "2024-01-31 23:59:59.5", "2024-01-31T00:30+02:00", "20240131", "20240131T12",
     "2024-W05-3", str(NOON), f"{NOON}.25", f"{NOON}000", f"{NOON}000000", f"{NOON}000000000"],
)  # fmt: skip
def test_every_format_of_a_time_has_its_day(cell):
    assert to_days(pl.Series([cell])).to_list() == [date(2024, 1, 31)]


@pytest.mark.parametrize("cell", ["", "yesterday", "7", "2024-13-01", "0001-01-01", "-5", "inf"])
def test_other_cells_have_no_day(cell):
    assert to_days(pl.Series([cell])).to_list() == [None]


def test_days_are_in_the_order_of_the_cells():
    cells = pl.Series(["2024-01-02", "x", "2024-01-01", "2024-W01-1", "2024-01-02"])
    days = [date(2024, 1, 2), None, date(2024, 1, 1), date(2024, 1, 1), date(2024, 1, 2)]
    assert to_days(cells).to_list() == days
