"""preprocess takes less of a processor and of memory than one Beam element a row."""

from __future__ import annotations

import pytest

from tests.benchmarks.preprocess import compare

pytestmark = pytest.mark.benchmark


def test_preprocess_takes_less_time_than_one_element_a_row_in_little_memory():
    results = compare(300_000, [])
    ours, rival = results["preprocess"], results["one element a row"]
    assert 1.4 * ours["processor_seconds"] < rival["processor_seconds"], results
    assert ours["peak_mib"] < 1500, results
