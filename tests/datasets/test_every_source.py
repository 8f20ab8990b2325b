"""Every source: its description, its tables, its errors."""

import pytest

from dssm_tf.commands.data import convert as convert_command
from dssm_tf.commands.data import list_
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import Task
from dssm_tf.datasets import ADAPTERS
from dssm_tf.datasets.source import Source
from tests.datasets.tables import write_source

HEADERS = {
    "clicks": "query\ttitle\tclicks\tdoc_id",
    "corpus": "doc_id\ttitle",
    "judgments": "query_id\tquery\tdoc_id\ttitle\tgrade",
}
EVENT_COLUMNS = {  # further columns of the click log of a source of events
    "bestbuy": "\ttimestamp",
    "ubi": "\ttimestamp\tsession_id\tposition\timpressions",
}
KETTLE, RUGS = "kettle\tRed Kettle\t1\tP1\n", "7\tred kettle 1 qt.\n8\tblue rug\n"
SHOP = "P1\tRed Kettle\nP2\tKettle Lid\nP3\tBlue Rug\n"


@pytest.mark.parametrize(
    ("name", "flags", "tables"),
    [
        (  # Exact training pairs are clicks; the test split of the publisher becomes judgments.
            "esci",
            {},
            {
                "clicks": KETTLE,
                "corpus": SHOP,
                "judgments": """\
11\trug\tP3\tBlue Rug\t3
11\trug\tP1\tRed Kettle\t0
12\tlid\tP2\tKettle Lid\t2
""",
            },
        ),
        (
            "esci",
            {"settings": ["version=small"]},
            {"clicks": KETTLE, "corpus": SHOP, "judgments": "12\tlid\tP2\tKettle Lid\t2\n"},
        ),
        (
            "esci",
            {"settings": ["locale=es"]},
            {"clicks": "tetera\tTetera Roja\t1\tP1\n", "corpus": "P1\tTetera Roja\n"},
        ),
        (  # Exact matches of the queries that are not held out are clicks.
            "wands",
            {},
            {
                "clicks": "blue rug\tblue rug\t1\t8\n",
                "corpus": RUGS,
                "judgments": """\
0\tred kettle\t7\tred kettle 1 qt.\t2
0\tred kettle\t8\tblue rug\t1
""",
            },
        ),
        (
            "wands",
            {"held_out": 1.0},
            {
                "corpus": RUGS,
                "judgments": """\
0\tred kettle\t7\tred kettle 1 qt.\t2
0\tred kettle\t8\tblue rug\t1
1\tblue rug\t8\tblue rug\t2
1\tblue rug\t7\tred kettle 1 qt.\t0
""",
            },
        ),
        (  # 2.67 - 1 = 1.67 is at least 1.6; the bytes of the file are latin-1.
            "homedepot",
            {"held_out": 0.5},
            {
                "clicks": "blue rug\tRug\t1\t100002\n",
                "corpus": "100001\tKettle, 5° tilt\n100002\tRug\n100009\tOak table\n",
                "judgments": """\
q000001\tred kettle\t100001\tKettle, 5° tilt\t2
q000001\tred kettle\t100002\tRug\t1.33
""",
            },
        ),
        (
            "trec",
            {},
            {
                "clicks": "blue rug\tRug\t1\tFT-2\n",
                "corpus": "FT-1\tKettles\nFT-2\tRug\n",
                "judgments": "51\tred kettle\tFT-1\tKettles\t2\n",
            },
        ),
        (  # Training pairs are clicks, those of dev judgments.
            "msmarco",
            {},
            {
                "clicks": "when does water boil\tWater boils at 100.\t1\t0\n",
                "corpus": "0\tWater boils at 100.\n1\tRugs are woven.\n",
                "judgments": "7\thow are rugs made\t1\tRugs are woven.\t1\n",
            },
        ),
        (  # By time: kettle, ketle (lost is not in the catalog), then the held-out half, rug. Two
            # of its clicks are on 22 and one on 11, which is half of that.
            "bestbuy",
            {"held_out": 0.5},
            {
                "clicks": """\
kettle\tKettle & Lid\t1\t11\t2011-09-01 10:00:00.1
ketle\tKettle & Lid\t1\t11\t2011-09-02 10:00:00.1
""",
                "corpus": "11\tKettle & Lid\n22\tRug\n",
                "judgments": """\
q000001\trug\t22\tRug\t3
q000001\trug\t11\tKettle & Lid\t2
""",
            },
        ),
        (  # Three clicks; held out is a third of them, the latest.
            "ubi",
            {"held_out": 1 / 3},
            {
                "clicks": """\
kettle\tTA\t0\tA\t2024-05-01T10:00:01Z\ts1\t2\t1
kettle\tTA\t1\tA\t2024-05-01T10:00:05Z\ts1\t2\t
rug\tTA\t1\tA\t2024-05-01T11:00:00Z\ts1\t2\t
""",
                "corpus": "B\tTB\nA\tTA\n",
                "judgments": "q000001\tkettle\tB\tTB\t3\n",
            },
        ),
    ],
)
def test_a_source_becomes_clicks_a_corpus_and_judgments(
    tmp_path, source, convert, name, flags, tables
):
    """A table without a row is not written."""
    write_source(source, name)
    convert(name, **flags)
    headers = HEADERS | {"clicks": HEADERS["clicks"] + EVENT_COLUMNS.get(name, "")}
    assert {path.stem: path.read_text("utf-8") for path in (tmp_path / "out").glob("*.tsv")} == {
        table: f"{headers[table]}\n{rows}" for table, rows in tables.items()
    }


def test_every_source_lists_its_files_license_and_grades(capsys):
    list_()
    blocks = capsys.readouterr().out.strip().split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == list(ADAPTERS)
    for block in blocks:
        for field in ("origin: ", "license: ", "file: ", "grades: ", "split: "):
            assert f"\n  {field}" in block


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("wand", {}, "there is no source 'wand'; choose from esci, wands"),
        ("wands", {"settings": ["n=1"]}, "--set n=1: expected KEY=VALUE; wands has the keys n"),
        ("wands", {"held_out": 1.5}, r"--held-out is 1\.5; expected a fraction"),
        (
            "esci",
            {"held_out": 0.5},
            "--held-out cannot change the split of esci, which is the publisher's",
        ),
        ("homedepot", {}, r"no train\.csv \(also \.gz\); expected one, found: label\.csv, product"),
    ],
)
def test_a_failed_conversion_is_an_error_and_leaves_no_output(
    tmp_path, source, convert, name, flags, message
):
    write_source(source, "wands")
    with pytest.raises(UserError, match=message):
        convert(name, **flags)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"label": "query_id\tproduct_id\tlabel\n"},
            "gave 2 titles, 0 rows of clicks and 0 judgments.*left out: nothing",
        ),
        (
            {"label": "query_id\tproduct_id\tlabel\n0\t7\tPerhaps\n"},
            r"label\.csv:2: the label is 'Perhaps'.*Exact, Partial",
        ),
        (
            {"label": "query_id\tproduct_id\tlabel\n9\t7\tExact\n"},
            r"the query_id '9'; expected .*an id of query\.csv",
        ),
        (
            {"query": "query_id\twords\n0\tred kettle\n"},
            "columns 'query_id', 'words'; expected 'query_id', 'q",
        ),
    ],
)
def test_files_without_a_usable_row_are_an_error_not_an_empty_table(
    source, convert, changed, message
):
    write_source(source, "wands", **changed)
    with pytest.raises(UserError, match=message):
        convert("wands")


def test_two_files_with_the_same_name_are_refused(source, convert):
    write_source(source, "wands")
    (source / "more").mkdir()
    (source / "more" / "label.csv").write_text("", "utf-8")
    message = r"several files for .*; expected one, found: label\.csv, label\.csv\."
    with pytest.raises(UserError, match=message):
        convert("wands")


def test_a_missing_source_and_an_existing_output_are_refused(tmp_path, source, convert):
    with pytest.raises(UserError, match="elsewhere does not exist; give the directory"):
        convert_command("wands", tmp_path / "elsewhere", tmp_path / "new")
    write_source(source, "wands")
    convert("wands")
    with pytest.raises(UserError, match="out exists already"):
        convert("wands")


def test_progress_counts_rows(tmp_path, monkeypatch):
    updates = []
    monkeypatch.setattr(Task, "update", lambda task, done, state="": updates.append(done))
    (tmp_path / "table.csv").write_text("a\n" + "1\n" * 10_000, "utf-8")
    Source(tmp_path).read(tmp_path / "table.csv", ["a"], lambda cell: None)
    assert updates == [4096, 8192]
