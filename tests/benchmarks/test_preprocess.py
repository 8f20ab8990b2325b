"""preprocess is fast enough for its name, and faster than one Beam element a row."""

from __future__ import annotations

import pytest

from tests.benchmarks.preprocess import TARGET, compare

pytestmark = pytest.mark.benchmark


def test_preprocess_reads_20_000_rows_a_second_and_beats_one_element_a_row():
    results = compare(300_000, [])
    ours, rival = results["preprocess"], results["one element a row"]
    assert ours["seconds"] < rival["seconds"], results
    assert ours["rows_a_second"] > TARGET, results
    assert ours["peak_mib"] < 1500, results
