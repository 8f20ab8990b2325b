"""`examples.studies.training_choices` on tiny logs."""

import shutil

import pytest

from examples.studies.training_choices import main
from tests.clicks import click_log
from tests.examples.studies.conftest import table_rows, write_rows


@pytest.mark.slow
def test_choices_are_compared_on_validation_queries(shop, judgments, tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(shop, data / "bestbuy")
    rows = [(click.query, click.title, 1) for click in click_log(120)]
    write_rows(data / "homedepot" / "clicks.tsv", "query title clicks", rows)
    shutil.copy(judgments, data / "homedepot" / "judgments.tsv")
    flags = [
        "--data", str(data), "--out", str(out), "--seeds", "1", "--logs", "Best Buy",
        "--choices", "shipped;dropout 0", "--set", "training.epochs=1",
        "--set", "tower.widths=[8]",
    ]  # fmt: skip
    main(flags)
    output = capsys.readouterr().out
    _, _, *choices = table_rows(output)
    assert [row[0] for row in choices] == ["shipped", "dropout 0"]
    assert choices[0][4] == ""
    assert choices[1][4].endswith("one seed")
    assert "Best Buy, " in output
    main(flags)  # resumes: the stored results give the same table
    assert capsys.readouterr().out == output
