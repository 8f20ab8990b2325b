"""preprocess is fast, small in memory and on disk, on a log that grows as logs do."""

from __future__ import annotations

import pytest

from tests.benchmarks.preprocess import compare

pytestmark = pytest.mark.benchmark


def test_preprocess_reads_many_rows_in_little_memory_and_writes_no_more_than_the_log():
    found = compare(300_000, [])["this"]
    # Half of the processor seconds are those of starting Python, Beam and Polars.
    assert found["rows_a_processor_second"] > 25_000, found
    assert found["peak_mib"] < 700, found
    assert found["output_mb"] < found["log_mb"], found
