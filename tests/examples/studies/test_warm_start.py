"""`examples.studies.warm_start` on a tiny log."""

import json

import pytest

from examples.studies.warm_start import SYSTEMS, main, slices
from tests.examples.studies.conftest import table_rows


def test_slices_have_equal_sizes_after_the_first_part():
    rows = [str(row) for row in range(10)]
    # Half of the rows, then 5 rows in 2 days and the test rows: int(5 + 5 i / 3).
    assert slices(rows, 0.5, 2) == [rows[:5], rows[5:6], rows[6:8], rows[8:]]


@pytest.mark.slow
def test_every_system_is_measured_on_every_day(shop, tmp_path, capsys):
    main([
        "--clicks", str(shop / "clicks.tsv"), "--corpus", str(shop / "corpus.tsv"),
        "--days", "1", "--seeds", "1", "--warm", "training.epochs=1",
        "--json", str(tmp_path / "values.json"),
    ])  # fmt: skip
    head, _, *rows = table_rows(capsys.readouterr().out)
    assert head[:3] == ["system", "day 1", "NDCG@1"]
    assert [row[0] for row in rows] == [*SYSTEMS]
    ndcg = json.loads((tmp_path / "values.json").read_text())["ndcg"]
    for row in rows:
        # One seed and one day: the mean over days is the value of the day.
        assert row[1] == f"{ndcg[row[0]][0][0][0]:.3f}"
        assert row[2] == f"{row[1]} ± 0.000"
    assert rows[-1][-1] == "0"  # the stale run is not trained again
