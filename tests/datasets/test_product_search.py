"""ESCI, WANDS, Home Depot and Best Buy, on small files of the published layout."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from tests.datasets.tables import (
    LOG,
    XML,
    pairs,
    write_best_buy,
    write_esci,
    write_home_depot,
    write_table,
    write_wands,
)


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


def test_esci_takes_one_country(source, convert):
    write_esci(source)
    clicks, corpus, _ = convert("esci", settings=["locale=es"])
    assert corpus == [("P1", "Tetera Roja")]
    assert pairs(clicks) == [("tetera", "Tetera Roja", "P1")]


def test_escis_small_version_leaves_out_the_other_queries(source, convert):
    write_esci(source)
    _, _, judgments = convert("esci", settings=["version=small"])
    assert [row[0] for row in judgments] == ["12"]


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


def test_best_buy_clicks_are_split_by_time_and_judged_by_the_later_ones(source, convert):
    write_best_buy(source)
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


def test_broken_xml_is_named(source, convert):
    write_best_buy(source, XML[:-20])
    with pytest.raises(UserError, match=r"small_product_data\.xml is not well-formed XML"):
        convert("bestbuy")
