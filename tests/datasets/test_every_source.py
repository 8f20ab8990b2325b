"""What holds for every source: its description, its tables, refusals."""

from __future__ import annotations

import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.commands.data import list_
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Task
from dssm_tf.datasets import ADAPTERS
from dssm_tf.datasets.source import Source
from tests.datasets.tables import WRITERS, write_table, write_wands

RED, RUG = ("7", "red kettle 1 qt."), ("8", "blue rug")
KETTLE, LID, BLUE = ("P1", "Red Kettle"), ("P2", "Kettle Lid"), ("P3", "Blue Rug")
TILT, WOVEN = ("100001", "Kettle, 5° tilt"), ("100002", "Rug")


@pytest.mark.parametrize(
    ("name", "given", "clicked", "titles", "judged"),
    [
        # Exact training pairs are clicks; the publisher's test split judges.
        ("esci", {}, [("kettle", KETTLE)], [KETTLE, LID, BLUE],
         [("11", "rug", *BLUE, 3.0), ("11", "rug", *KETTLE, 0.0), ("12", "lid", *LID, 2.0)]),
        ("esci", {"settings": ["version=small"]}, [("kettle", KETTLE)], [KETTLE, LID, BLUE],
         [("12", "lid", *LID, 2.0)]),
        ("esci", {"settings": ["locale=es"]}, [("tetera", ("P1", "Tetera Roja"))],
         [("P1", "Tetera Roja")], None),
        # Exact matches of the queries that are not held out are clicks.
        ("wands", {}, [("blue rug", RUG)], [RED, RUG],
         [("0", "red kettle", *RED, 2.0), ("0", "red kettle", *RUG, 1.0)]),
        ("wands", {"held_out": 1.0}, None, [RED, RUG],
         [("0", "red kettle", *RED, 2.0), ("0", "red kettle", *RUG, 1.0),
          ("1", "blue rug", *RUG, 2.0), ("1", "blue rug", *RED, 0.0)]),
        # 2.67 - 1 = 1.67 is at least 1.6; the bytes of the file are latin-1.
        ("homedepot", {"held_out": 0.5}, [("blue rug", WOVEN)],
         [TILT, WOVEN, ("100009", "Oak table")],
         [("q000001", "red kettle", *TILT, 2.0), ("q000001", "red kettle", *WOVEN, 1.33)]),
        ("trec", {}, [("blue rug", ("FT-2", "Rug"))], [("FT-1", "Kettles"), ("FT-2", "Rug")],
         [("51", "red kettle", "FT-1", "Kettles", 2.0)]),
    ],
)  # fmt: skip
def test_a_source_becomes_clicks_a_corpus_and_judgments(
    source, convert, name, given, clicked, titles, judged
):
    """A table that is expected to be None is not written."""
    WRITERS[name](source)
    clicks, corpus, judgments = convert(name, **given)
    pairs = clicks and [(row["query"], (row["doc_id"], row["title"])) for row in clicks]
    assert pairs == clicked
    assert corpus == titles
    assert judgments == judged


def test_every_source_says_its_files_its_licence_and_its_grades(capsys):
    list_()
    blocks = capsys.readouterr().out.strip().split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == list(ADAPTERS)
    for block in blocks:
        for field in ("described: ", "licence: ", "file: ", "grades: ", "split: "):
            assert f"\n  {field}" in block


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("wand", {}, "there is no source 'wand'; choose from esci, wands"),
        ("wands", {"settings": ["n=1"]}, "--set n=1: expected KEY=VALUE; wands has the keys n"),
        ("wands", {"held_out": 1.5}, r"--held-out is 1\.5; expected a share"),
        ("esci", {"held_out": 0.5}, "--held-out: the publisher has split esci"),
        ("homedepot", {}, r"no train\.csv \(also \.gz\); expected one, found: label\.csv, product"),
        ("bestbuy", {}, r"several files for .*; expected one, found: train\.csv, train\.csv\."),
    ],
)
def test_what_cannot_be_converted_is_refused_and_leaves_nothing(
    tmp_path, source, convert, name, given, message
):
    write_wands(source)
    if name == "bestbuy":
        for folder in (source, source / "more"):
            folder.mkdir(exist_ok=True)
            (folder / "train.csv").write_text("sku,query,click_time\n", "utf-8")
        (source / "small_product_data.xml").write_text("<products/>", "utf-8")
    with pytest.raises(UserError, match=message):
        convert(name, **given)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    ("file", "rows", "message"),
    [
        ("label", [["query_id", "product_id", "label"]],
         "gave 2 titles, 0 rows of clicks and 0 judgments.*left out: nothing"),
        ("label", [["query_id", "product_id", "label"], ["0", "7", "Perhaps"]],
         r"label\.csv:2: the label is 'Perhaps'.*Exact, Partial"),
        ("label", [["query_id", "product_id", "label"], ["9", "7", "Exact"]],
         r"the query_id '9'; expected .*an id of query\.csv"),
        ("query", [["query_id", "words"], ["0", "red kettle"]],
         "columns 'query_id', 'words'; expected 'query_id', 'q"),
    ],
)  # fmt: skip
def test_files_without_a_usable_row_are_an_error_not_an_empty_table(
    source, convert, file, rows, message
):
    write_wands(source)
    write_table(source / f"{file}.csv", rows, "\t")
    with pytest.raises(UserError, match=message):
        convert("wands")


def test_a_source_that_is_not_there_and_an_output_that_is_are_refused(tmp_path, source, convert):
    with pytest.raises(UserError, match="elsewhere does not exist; give the directory"):
        convert_command("wands", tmp_path / "elsewhere", tmp_path / "new")
    write_wands(source)
    convert("wands")
    with pytest.raises(UserError, match="out exists already"):
        convert("wands")


def test_progress_counts_rows(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(Task, "update", lambda task, done, state="": told.append(done))
    (tmp_path / "table.csv").write_text("a\n" + "1\n" * 10_000, "utf-8")
    Source(tmp_path).read(tmp_path / "table.csv", ["a"], lambda cell: None)
    assert told == [4096, 8192]
