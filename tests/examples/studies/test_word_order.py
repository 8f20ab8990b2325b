"""`examples.studies.word_order` on a tiny log."""

import pytest

from examples.studies.word_order import main
from tests.examples.studies.conftest import table_rows


@pytest.mark.slow
def test_dssm_ranks_topics_but_not_word_order(tmp_path, capsys):
    flags = [
        "--models",
        "dssm",
        "--learning-rates",
        "0.03",
        "--seeds",
        "1",
        "--epochs",
        "4",
        "--queries",
        "400",
    ]
    main(["--out", str(tmp_path / "out"), *flags])
    head, _, row = table_rows(capsys.readouterr().out)
    values = dict(zip(head, row, strict=True))
    assert row[0] == "dssm"
    # The titles of an order group have the same bag of words, so their order is random.
    assert float(values["order-1"].split()[0]) == pytest.approx(0.5, abs=0.15)
    assert float(values["topic-8"].split()[0]) > 0.65
    assert len((tmp_path / "out" / "trials.jsonl").read_text().splitlines()) == 2
    main(["--out", str(tmp_path / "out"), *flags])  # resumes without a training
    assert table_rows(capsys.readouterr().out)[2] == row
