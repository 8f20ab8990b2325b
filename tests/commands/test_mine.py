"""`dssm mine`: its output and its errors."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from tests.clicks import click_log, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("mine") / "data", click_log()).path


def test_the_output_counts_the_negatives_and_has_the_training_command(data, tmp_path, capsys):
    out = tmp_path / "mined.tsv"
    assert main(f"mine --data {data} --bm25 --ranks 1 3 --out {out}".split()) == 0
    _, *rows = (line.split("\t") for line in out.read_text("utf-8").splitlines())
    queries, titles, _, ranks = map(set, zip(*(row[:4] for row in rows), strict=True))
    output = capsys.readouterr().out
    expected = f"{len(rows):,} hard negatives of {len(queries)} queries, {len(titles):,} distinct"
    assert expected in output
    assert f"--set negatives.mined_from={out}" in output
    assert ranks == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--bm25 --ranks 5 2 --margin -1", "ranks 5 2 and margin -1: expected"),
        ("", "give a run (--model RUN), --bm25, or both"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line_with_exit_code_1(
    data, tmp_path, capsys, flags, message
):
    out = tmp_path / "mined.tsv"
    assert main(f"mine --data {data} {flags} --out {out}".split()) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()
