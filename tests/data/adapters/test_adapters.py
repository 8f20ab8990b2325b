"""Each source, on small files of the layout its publisher describes; the content is invented."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pyarrow
import pyarrow.parquet
import pytest
from rich.console import Console

from dssm_tf.data.adapters import ADAPTERS
from dssm_tf.data.adapters.output import is_held_out
from dssm_tf.data.click_log import Columns, tsv_rows
from dssm_tf.data.judgments import read_corpus, read_judgments
from dssm_tf.data_command import convert_command, list_command
from dssm_tf.errors import UserError

# Decided by the text alone: with a share of one half, the first is held out.
HELD_OUT, NOT_HELD_OUT = "red kettle", "blue rug"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def convert(tmp_path, source):
    """Converts the folder; gives clicks, corpus and judgments as plain tuples, None if missing."""

    def run(name, held_out=None, settings=()):
        out = tmp_path / "out"
        convert_command(name, source, out, held_out, settings, Console(file=io.StringIO()))
        clicks = judgments = None
        if (out / "clicks.tsv").exists():
            header, *lines = (out / "clicks.tsv").read_text("utf-8").splitlines()
            # The reader that preprocess uses must take every row.
            read = tsv_rows(
                [(number, line.encode()) for number, line in enumerate(lines)],
                Columns.of(header.split("\t"), "clicks.tsv"),
            )
            assert all(hasattr(row, "query") for row in read)
            clicks = [
                dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines
            ]
        if (out / "judgments.tsv").exists():
            judgments = [
                (row.query_id, row.query, row.doc_id, row.title, row.grade)
                for row in read_judgments(out / "judgments.tsv")
            ]
        return clicks, [tuple(row) for row in read_corpus(out / "corpus.tsv")], judgments

    return run


def pairs(clicks):
    return [(row["query"], row["title"], row["doc_id"]) for row in clicks]


def write_table(path, rows, delimiter=",", encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)


def write_lines(path, *rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), "utf-8")


def write_objects(path, *objects):
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), "utf-8")


def test_a_query_is_held_out_or_not_however_it_is_written():
    assert is_held_out(HELD_OUT, 0.5)
    assert is_held_out(" Red, KETTLE!", 0.5)
    assert not is_held_out(NOT_HELD_OUT, 0.5)
    assert not is_held_out(HELD_OUT, 0.0)
    assert is_held_out(NOT_HELD_OUT, 1.0)


# ------------------------------------------------------------------------------------------ ESCI


def write_esci(source):
    products = {
        "product_id": ["P1", "P2", "P3", "P1"],
        "product_title": ["Red Kettle", "Kettle\tLid", "Blue Rug", "Tetera Roja"],
        "product_description": ["", None, "", ""],
        "product_locale": ["us", "us", "us", "es"],
    }
    examples = [
        # example_id, query, query_id, product_id, locale, label, small, large, split
        (0, "kettle", 10, "P1", "us", "E", 1, 1, "train"),
        (1, "kettle", 10, "P2", "us", "C", 1, 1, "train"),
        (2, "rug", 11, "P3", "us", "E", 0, 1, "test"),
        (3, "rug", 11, "P1", "us", "I", 0, 1, "test"),
        (4, "lid", 12, "P2", "us", "S", 1, 1, "test"),
        (5, "tetera", 13, "P1", "es", "E", 1, 1, "train"),
    ]
    names = ["example_id", "query", "query_id", "product_id", "product_locale", "esci_label"]
    names += ["small_version", "large_version", "split"]
    columns = dict(zip(names, map(list, zip(*examples, strict=True)), strict=True))
    for name, table in (("products", products), ("examples", columns)):
        path = source / f"shopping_queries_dataset_{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.table(table), path)


def test_esci_takes_exact_training_pairs_as_clicks_and_judges_by_the_test_split(source, convert):
    write_esci(source)
    clicks, corpus, judgments = convert("esci")
    assert pairs(clicks) == [("kettle", "Red Kettle", "P1")]
    assert corpus == [("P1", "Red Kettle"), ("P2", "Kettle Lid"), ("P3", "Blue Rug")]
    assert judgments == [
        ("11", "rug", "P3", "Blue Rug", 3.0),
        ("11", "rug", "P1", "Red Kettle", 0.0),
        ("12", "lid", "P2", "Kettle Lid", 2.0),
    ]


def test_esci_keeps_the_titles_of_one_product_in_two_countries_apart(source, convert):
    write_esci(source)
    clicks, corpus, _ = convert("esci", settings=["locale=all"])
    assert ("us:P1", "Red Kettle") in corpus
    assert pairs(clicks)[-1] == ("tetera", "Tetera Roja", "es:P1")


def test_escis_small_version_leaves_out_the_other_queries(source, convert):
    write_esci(source)
    _, _, judgments = convert("esci", settings=["version=small"])
    assert [row[0] for row in judgments] == ["12"]


def test_esci_has_a_split_of_its_own(source, convert):
    write_esci(source)
    with pytest.raises(UserError, match=r"--held-out: esci is split by its publisher"):
        convert("esci", held_out=0.5)


# ----------------------------------------------------------------------------------------- WANDS


def write_wands(source, label="Partial"):
    write_table(
        source / "product.csv",
        [
            ["product_id", "product_name", "product_class", "product_description"],
            ["7", "red kettle 1 qt.", "Kettles", 'a "fine"\nkettle'],
            ["8", "blue rug", "Rugs", ""],
        ],
        "\t",
    )
    rows = [["query_id", "query", "query_class"], [0, HELD_OUT, ""], [1, NOT_HELD_OUT, ""]]
    write_table(source / "query.csv", rows, "\t")
    labels = [["id", "query_id", "product_id", "label"], [0, 0, 7, "Exact"], [1, 0, 8, label]]
    labels += [[2, 1, 8, "Exact"], [3, 1, 7, "Irrelevant"]]
    write_table(source / "label.csv", labels, "\t")


def test_wands_judges_the_held_out_queries_and_clicks_exact_matches_of_the_others(source, convert):
    write_wands(source)
    clicks, corpus, judgments = convert("wands")
    assert pairs(clicks) == [("blue rug", "blue rug", "8")]
    assert corpus == [("7", "red kettle 1 qt."), ("8", "blue rug")]
    assert judgments == [
        ("0", "red kettle", "7", "red kettle 1 qt.", 2.0),
        ("0", "red kettle", "8", "blue rug", 1.0),
    ]


def test_all_queries_held_out_means_judgments_only(source, convert):
    write_wands(source)
    clicks, _, judgments = convert("wands", held_out=1.0)
    assert clicks is None
    assert len(judgments) == 4


def test_an_unknown_label_is_named_with_its_line(source, convert):
    write_wands(source, label="Perhaps")
    with pytest.raises(UserError, match=r"label\.csv:3: the label is 'Perhaps'.*Exact, Partial"):
        convert("wands")


def test_a_missing_file_says_what_was_expected_and_found(tmp_path, source, convert):
    write_wands(source)
    (source / "label.csv").unlink()
    with pytest.raises(UserError, match=r"no label\.csv \(also \.gz\); found: product\.csv, query"):
        convert("wands")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_missing_column_says_what_was_expected_and_found(source, convert):
    write_wands(source)
    write_table(source / "query.csv", [["query_id", "words"], ["0", "red kettle"]], "\t")
    with pytest.raises(UserError, match=r"has the columns query_id, words; expected query_id, q"):
        convert("wands")


# ------------------------------------------------------------------------------ MS MARCO and ORCAS


def write_msmarco(source):
    write_lines(source / "collection.tsv", (0, "Water boils at 100."), (1, "Rugs are woven."))
    write_lines(source / "queries.train.tsv", (5, "when does water boil"), (6, "unjudged"))
    write_lines(source / "qrels.train.tsv", (5, 0, 0, 1), (99, 0, 1, 1))
    write_lines(source / "queries.dev.small.tsv", (7, "how are rugs made"))
    write_lines(source / "qrels.dev.small.tsv", (7, 0, 1, 1))


def test_msmarco_has_training_pairs_as_clicks_and_dev_as_judgments(tmp_path, source, convert):
    write_msmarco(source)
    clicks, corpus, judgments = convert("msmarco")
    assert pairs(clicks) == [("when does water boil", "Water boils at 100.", "0")]
    assert corpus == [("0", "Water boils at 100."), ("1", "Rugs are woven.")]
    assert judgments == [("7", "how are rugs made", "1", "Rugs are woven.", 1.0)]
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "- Left out: 1 x judgment of a query without a text." in notes
    assert "research use only" in notes


def test_msmarco_shows_page_titles_where_they_are_given(source, convert):
    write_msmarco(source)
    write_lines(source / "para.title.txt", (0, "Boiling point"), (1, "-"))
    _, corpus, _ = convert("msmarco")
    assert corpus == [("0", "Boiling point"), ("1", "Rugs are woven.")]


def test_orcas_joins_clicks_to_titles_out_of_packed_files(tmp_path, source, convert):
    with gzip.open(source / "msmarco-docs.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("D1\thttp://example.org/a\tKettles\tlong body\nD2\thttp://example.org/b\t\tx\n")
    with gzip.open(source / "orcas.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("3\tkettle\tD1\thttp://example.org/a\n4\trug\tD2\thttp://example.org/b\n")
    write_lines(source / "msmarco-docdev-queries.tsv", (8, "best kettle"))
    (source / "msmarco-docdev-qrels.tsv").write_text("8 0 D1 1\n", "utf-8")
    clicks, corpus, judgments = convert("orcas")
    assert pairs(clicks) == [("kettle", "Kettles", "D1")]
    assert corpus == [("D1", "Kettles")]
    assert judgments == [("8", "best kettle", "D1", "Kettles", 1.0)]
    notes = (tmp_path / "out" / "NOTES.md").read_text("utf-8")
    assert "1 x title without text or id" in notes
    assert "1 x click on a title that the corpus lacks" in notes


def test_a_broken_archive_is_an_error(source, convert):
    packed = gzip.compress(b"D1\turl\tKettles\tbody\n" * 1000)
    (source / "msmarco-docs.tsv.gz").write_bytes(packed[:-20])
    with pytest.raises(UserError, match=r"msmarco-docs\.tsv\.gz is not a whole gzip file"):
        convert("orcas")


# ------------------------------------------------------------------------------------------- UBI


def event(action, query_id, object_id, time):
    target = {"object_id": object_id, "object_id_field": "sku", "description": f"T{object_id}"}
    return {
        "action_name": action,
        "query_id": query_id,
        "client_id": "c1",
        "timestamp": time,
        "event_attributes": {"object": target, "position": {"ordinal": 2}, "session_id": "s1"},
    }


def write_ubi(source):
    write_objects(
        source / "ubi_queries.ndjson",
        {"query_id": "q1", "user_query": "kettle", "timestamp": "2024-05-01T10:00:00Z"},
        {"_index": "ubi_queries", "_source": {"query_id": "q2", "user_query": "rug"}},
    )
    write_objects(
        source / "ubi_events.ndjson",
        {"index": {"_index": "ubi_events"}},  # the bulk interface has such lines
        event("click", "q1", "B", "2024-05-01T12:00:00Z"),
        event("impression", "q1", "A", "2024-05-01T10:00:01Z"),
        event("click", "q1", "A", "2024-05-01T10:00:05Z"),
        event("click", "q2", "A", "2024-05-01T11:00:00Z"),
        event("click", "unknown", "A", "2024-05-01T11:00:00Z"),
        event("scroll", "q1", "A", "2024-05-01T10:00:02Z"),
    )


def test_ubi_events_become_clicks_by_time_and_the_latest_judge(source, convert):
    write_ubi(source)
    # Three clicks; held out is a third of them, the latest.
    clicks, corpus, judgments = convert("ubi", held_out=1 / 3)
    names = ("query", "title", "clicks", "timestamp", "session_id", "position", "impressions")
    assert [tuple(row[name] for name in names) for row in clicks] == [
        ("kettle", "TA", "0", "2024-05-01T10:00:01Z", "s1", "2", "1"),
        ("kettle", "TA", "1", "2024-05-01T10:00:05Z", "s1", "2", ""),
        ("rug", "TA", "1", "2024-05-01T11:00:00Z", "s1", "2", ""),
    ]
    assert corpus == [("B", "TB"), ("A", "TA")]
    assert judgments == [("q000001", "kettle", "B", "TB", 3.0)]


def test_ubi_takes_titles_from_a_catalogue(source, convert):
    write_ubi(source)
    write_objects(
        source / "products.ndjson", {"id": "A", "name": "Kettle"}, {"id": "C", "name": "C"}
    )
    clicks, corpus, _ = convert("ubi", settings=["title=name"])
    assert corpus == [("A", "Kettle"), ("C", "C")]
    assert {row["title"] for row in clicks} == {"Kettle"}


def test_ubi_reads_the_answer_of_a_search_as_one_array_or_object(source, convert):
    write_ubi(source)
    queries = [{"query_id": "q1", "user_query": "kettle"}, {"query_id": "q2", "user_query": "rug"}]
    (source / "ubi_queries.ndjson").unlink()
    (source / "ubi_queries.json").write_text(json.dumps(queries, indent=1), "utf-8")
    hits = {"hits": {"hits": [{"_source": event("click", "q1", "A", 1714557600000)}]}}
    write_objects(source / "ubi_events.ndjson", hits)
    clicks, _, _ = convert("ubi", held_out=0)
    assert [(row["query"], row["timestamp"]) for row in clicks] == [
        ("kettle", "2024-05-01T10:00:00.000+00:00")
    ]


def test_ubi_actions_that_are_not_clicks_are_named(source, convert):
    write_ubi(source)
    with pytest.raises(UserError, match=r"no event named buy; its actions are click, impression"):
        convert("ubi", settings=["clicks=buy"])


# ---------------------------------------------------------------------------- Home Depot, Best Buy


def write_home_depot(source, relevance="2.33"):
    header = ["id", "product_uid", "product_title", "search_term", "relevance"]
    rows = [
        [2, 100001, "Kettle, 5° tilt", "red kettle", "3"],
        [3, 100002, "Rug", "red kettle", relevance],
        [9, 100002, "Rug", "blue rug", "2.67"],
        [16, 100001, "Kettle, 5° tilt", "blue rug", "1"],
    ]
    write_table(source / "train.csv", [header, *rows], encoding="latin-1")
    write_table(
        source / "test.csv", [header[:4], [1, 100009, "Oak table", "table"]], encoding="latin-1"
    )


def test_home_depot_relevance_becomes_a_grade_from_zero_on(source, convert):
    write_home_depot(source)
    clicks, corpus, judgments = convert("homedepot", held_out=0.5)
    # 2.67 - 1 = 1.67 is at least 1.6; the bytes of the file are latin-1
    assert pairs(clicks) == [("blue rug", "Rug", "100002")]
    assert corpus == [("100001", "Kettle, 5° tilt"), ("100002", "Rug"), ("100009", "Oak table")]
    assert judgments == [
        ("q000001", "red kettle", "100001", "Kettle, 5° tilt", 2.0),
        ("q000001", "red kettle", "100002", "Rug", 1.33),
    ]


@pytest.mark.parametrize("relevance", ["0.5", "good", "nan"])
def test_home_depot_relevance_outside_the_scale_is_named_with_its_line(source, convert, relevance):
    write_home_depot(source, relevance)
    with pytest.raises(
        UserError, match=rf"train\.csv:3: relevance is '{relevance}'; expected a nu"
    ):
        convert("homedepot")


LOG = [["user", "sku", "category", "query", "click_time", "query_time"]] + [
    ["u1", sku, "abcat", query, f"2011-09-0{day} 10:00:00.1", f"2011-09-0{day} 09:59:00.1"]
    for sku, query, day in [("22", "rug", 4), ("11", "kettle", 1), ("11", "ketle", 2),
                            ("22", "rug", 3), ("33", "lost", 2), ("11", "rug", 5)]
]  # fmt: skip
XML = """<?xml version="1.0" encoding="UTF-8"?>
<products>
  <product><sku>11</sku><name>Kettle &amp; Lid</name>
    <accessories><product><sku>99</sku><name>Lid</name></product></accessories></product>
  <product><name>Rug</name><sku>22</sku></product>
</products>
"""


def test_best_buy_clicks_are_split_by_time_and_judged_by_the_later_ones(source, convert):
    write_table(source / "train.csv", LOG)
    (source / "small_product_data.xml").write_text(XML, "utf-8")
    clicks, corpus, judgments = convert("bestbuy", held_out=0.5)
    # by time: kettle 1, ketle 2, (lost 2: not in the catalogue), | rug 3, rug 4, rug 5
    assert [(row["query"], row["title"], row["timestamp"][:10]) for row in clicks] == [
        ("kettle", "Kettle & Lid", "2011-09-01"),
        ("ketle", "Kettle & Lid", "2011-09-02"),
    ]
    assert corpus == [("11", "Kettle & Lid"), ("22", "Rug")]
    # rug: 2 clicks on 22, 1 on 11, which is half of it
    assert judgments == [
        ("q000001", "rug", "22", "Rug", 3.0),
        ("q000001", "rug", "11", "Kettle & Lid", 2.0),
    ]


def test_best_buys_big_catalogue_is_many_files(source, convert):
    write_table(source / "train.csv", LOG)
    folder = source / "product_data" / "products"
    folder.mkdir(parents=True)
    (folder / "products_0001.xml").write_text(XML, "utf-8")
    (folder / "products_0002.xml").write_text(XML.replace("11<", "33<"), "utf-8")
    _, corpus, _ = convert("bestbuy")
    assert [doc_id for doc_id, _ in corpus] == ["11", "22", "33"]


def test_best_buys_catalogue_may_be_a_table(source, convert):
    write_table(source / "train.csv", LOG)
    write_table(source / "products.csv", [["sku", "name"], ["11", "Kettle"], ["22", "Rug"]])
    assert convert("bestbuy")[1] == [("11", "Kettle"), ("22", "Rug")]


def test_broken_xml_is_named(source, convert):
    write_table(source / "train.csv", LOG)
    (source / "small_product_data.xml").write_text(XML[:-20], "utf-8")
    with pytest.raises(UserError, match=r"small_product_data\.xml is not well-formed XML"):
        convert("bestbuy")


# ------------------------------------------------------------------------------------------ TREC

TOPICS = """<top>
<num> Number: 051
<title> Topic: red kettle
<desc> Description: kettles that are red
</top>
<top>
<num> Number: 52 </num> <title> blue rug </title>
</top>
"""
DOCS = """<DOC>
<DOCNO> FT-1 </DOCNO>
<HEADLINE>Kettles &amp; lids</HEADLINE>
<TEXT>Body.</TEXT>
</DOC>
<DOC>
<DOCNO>FT-2</DOCNO>
<TEXT>
<P>A rug of</P> wool
</TEXT>
</DOC>
"""


def write_trec(source):
    (source / "topics.51-52").write_text(TOPICS, "utf-8")
    (source / "docs.sgml").write_text(DOCS, "utf-8")
    (source / "qrels.51-52").write_text("51 0 FT-1 2\n52 0 FT-2 1\n52 0 FT-1 -1\n", "utf-8")


def test_trec_collections_are_read_from_their_mark_up(source, convert):
    write_trec(source)
    clicks, corpus, judgments = convert("trec")
    assert corpus == [("FT-1", "Kettles & lids"), ("FT-2", "A rug of wool")]
    assert pairs(clicks) == [("blue rug", "A rug of wool", "FT-2")]
    assert judgments == [("51", "red kettle", "FT-1", "Kettles & lids", 2.0)]


def test_a_trec_runs_unjudged_titles_are_ranked_with_grade_zero(source, convert):
    write_trec(source)
    (source / "first.run").write_text("51 Q0 FT-2 1 3.5 x\n51 Q0 FT-1 2 3.1 x\n", "utf-8")
    _, _, judgments = convert("trec")
    assert [(row[2], row[4]) for row in judgments] == [("FT-1", 2.0), ("FT-2", 0.0)]


def test_trec_collections_as_json_lines_and_tables_are_the_same(source, convert):
    write_lines(source / "queries.tsv", ("51", "red kettle"), ("52", "blue rug"))
    write_objects(
        source / "corpus.jsonl",
        {"_id": "FT-1", "title": "Kettles & lids", "text": "Body."},
        {"_id": "FT-2", "title": "", "text": "A rug of wool"},
    )
    (source / "qrels.txt").write_text("51 0 FT-1 2\n52 0 FT-2 1\n", "utf-8")
    clicks, corpus, judgments = convert("trec")
    assert corpus == [("FT-1", "Kettles & lids"), ("FT-2", "A rug of wool")]
    assert pairs(clicks) == [("blue rug", "A rug of wool", "FT-2")]
    assert judgments == [("51", "red kettle", "FT-1", "Kettles & lids", 2.0)]


def test_trec_files_of_different_collections_are_refused(source, convert):
    write_trec(source)
    (source / "qrels.51-52").write_text("401 0 FT-1 2\n", "utf-8")
    with pytest.raises(UserError, match=r"no query id in common: 401 there, 51, 52 here"):
        convert("trec")


# --------------------------------------------------------------------------------------- command


def test_every_source_says_its_files_its_licence_and_its_grades():
    shown = io.StringIO()
    list_command(console=Console(file=shown, width=200))
    blocks = shown.getvalue().strip().split("\n\n")
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


def test_reading_a_table_leaves_the_limit_of_other_csv_readers_as_it_was(tmp_path):
    import csv

    from dssm_tf.data.adapters.source import Source

    (tmp_path / "table.csv").write_text("a,b\n1,2\n", "utf-8")
    before = csv.field_size_limit()
    assert list(Source(tmp_path).table(tmp_path / "table.csv", ["b"])) == [(2, ["2"])]
    assert csv.field_size_limit() == before
