"""`dssm mine` as it is typed: what it prints, and what it refuses."""

from __future__ import annotations

import pytest

from dssm_tf.cli import main
from tests.clicks import click_log, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("mine") / "data", click_log()).path


def test_it_counts_what_it_wrote_and_says_how_to_train_with_it(data, tmp_path, capsys):
    out = tmp_path / "mined.tsv"
    assert main(f"mine --data {data} --bm25 --ranks 1 3 --out {out}".split()) == 0
    _, *rows = (line.split("\t") for line in out.read_text("utf-8").splitlines())
    queries, titles, _, ranks = map(set, zip(*(row[:4] for row in rows), strict=True))
    said = capsys.readouterr().out
    counted = f"{len(rows):,} hard negatives of {len(queries)} queries, {len(titles):,} distinct"
    assert counted in said
    assert f"--set negatives.mined_from={out}" in said
    assert ranks == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--bm25 --ranks 5 2 --margin -1", "ranks 5 2 and margin -1: expected"),
        ("", "give a run (--model RUN), --bm25, or both"),
    ],
)
def test_what_cannot_be_mined_is_one_line_and_exit_1(data, tmp_path, capsys, flags, says):
    out = tmp_path / "mined.tsv"
    assert main(f"mine --data {data} {flags} --out {out}".split()) == 1
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()
