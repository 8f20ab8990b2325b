"""ESCI, WANDS, Home Depot and Best Buy, on small files of the published layout."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet
import pytest

from dssm_tf.common.errors import UserError
from tests.datasets.tables import pairs, write_table, write_wands


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
    with pytest.raises(UserError, match=r"columns 'query_id', 'words'; expected 'query_id', 'q"):
        convert("wands")


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
    with pytest.raises(UserError, match=rf"train\.csv:3: relevance (is )?'{relevance}'"):
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
