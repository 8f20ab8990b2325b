"""`examples.studies.position_bias` on tiny judgments."""

import pytest

from examples.studies.position_bias import main
from tests.examples.studies.conftest import table_rows


@pytest.mark.slow
def test_the_study_prints_ndcg_of_four_trainings_and_the_estimated_curves(
    judgments, tmp_path, capsys
):
    main([
        "--judgments", str(judgments), "--lists", "30", "--sessions", "30000", "--epochs", "1",
        "--seeds", "1", "--figure", str(tmp_path / "curves.png"),
    ])  # fmt: skip
    output = capsys.readouterr().out
    names = [row[0] for row in table_rows(output)]
    expected = [
        "unbiased clicks (eta 0), naive", "unbiased clicks (eta 0), weighted", "eta 1, naive",
        "eta 1, weighted",
    ]  # fmt: skip
    assert names[2:6] == expected
    (line,) = [line for line in output.splitlines() if line.startswith("seed 0, eta 1: ")]
    curve = [float(value) for value in line.partition(": ")[2].split(", ")]
    assert curve == pytest.approx([1, 1 / 2, 1 / 3], abs=0.1)
    assert (tmp_path / "curves.png").stat().st_size > 1000
