"""What holds for every source: its description, held-out queries, refusals."""

from __future__ import annotations

import csv

import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.commands.data import list_
from dssm_tf.common.errors import UserError
from dssm_tf.datasets import ADAPTERS
from dssm_tf.datasets.output import HELD_OUT as PURPOSE
from dssm_tf.datasets.source import Source
from dssm_tf.tables.splits import is_held_out
from tests.datasets.tables import HELD_OUT, NOT_HELD_OUT, write_table, write_wands


def test_a_query_is_held_out_or_not_however_it_is_written():
    assert is_held_out(HELD_OUT, 0.5, PURPOSE)
    assert is_held_out(" Red, KETTLE!", 0.5, PURPOSE)
    assert not is_held_out(NOT_HELD_OUT, 0.5, PURPOSE)


def test_every_source_says_its_files_its_licence_and_its_grades(capsys):
    list_()
    blocks = capsys.readouterr().out.strip().split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == list(ADAPTERS)
    for block in blocks:
        for field in ("described: ", "licence: ", "file: ", "grades: ", "split: "):
            assert f"\n  {field}" in block


def test_unknown_sources_options_and_shares_are_refused(source, convert):
    write_wands(source)
    with pytest.raises(UserError, match="there is no source 'wand'; choose from esci, wands"):
        convert("wand")
    with pytest.raises(
        UserError, match=r"--set locale=us: expected KEY=VALUE; wands has the keys n"
    ):
        convert("wands", settings=["locale=us"])
    with pytest.raises(UserError, match=r"--held-out is 1\.5; expected a share"):
        convert("wands", held_out=1.5)


def test_a_source_that_is_not_there_and_an_output_that_is_are_refused(tmp_path, source, convert):
    with pytest.raises(UserError, match="elsewhere does not exist; give the directory"):
        convert_command("wands", tmp_path / "elsewhere", tmp_path / "new")
    write_wands(source)
    convert("wands")
    with pytest.raises(UserError, match="out exists already"):
        convert("wands")


def test_files_without_a_row_are_an_error_not_an_empty_table(tmp_path, source, convert):
    write_wands(source)
    write_table(source / "label.csv", [["query_id", "product_id", "label"]], "\t")
    with pytest.raises(UserError, match="gave 2 titles, 0 rows of clicks and 0 judgments"):
        convert("wands")
    assert not (tmp_path / "out").exists()


def test_a_cell_may_be_long_and_the_limit_of_other_csv_readers_stays(tmp_path):
    long = "x" * 2_000_000
    (tmp_path / "table.csv").write_text(f"a,b\n1,{long}\n", "utf-8")
    before = csv.field_size_limit()
    assert list(Source(tmp_path).table(tmp_path / "table.csv", ["b"])) == [(2, (long,))]
    assert csv.field_size_limit() == before
