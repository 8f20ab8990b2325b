"""preprocess is fast and needs little memory and disk space."""

from __future__ import annotations

import pytest

from tests.benchmarks.scale import measure, write_log

pytestmark = pytest.mark.benchmark


def test_preprocess_reads_many_rows_in_little_memory_and_writes_no_more_than_the_log(tmp_path):
    log, rows = tmp_path / "clicks.tsv", 300_000
    write_log(log, rows)
    seconds, mib, megabytes = measure(log, tmp_path / "data")
    # Half of the processor seconds are spent on importing Python, Beam and Polars.
    assert rows / seconds > 25_000
    assert mib < 700
    assert megabytes < log.stat().st_size / 1e6
