"""ESCI, WANDS, Home Depot and Best Buy, on small files of the published layout."""

import pytest

from dssm_tf.common.errors import UserError
from tests.datasets.tables import SOURCES, write_source


@pytest.mark.parametrize("relevance", ["0.5", "good", "nan"])
def test_home_depot_relevance_outside_the_scale_is_named_with_its_line(source, convert, relevance):
    train = SOURCES["homedepot"]["train.csv"].replace("2.33", relevance)
    write_source(source, "homedepot", train=train)
    with pytest.raises(UserError, match=rf"train\.csv:3: relevance (is )?'{relevance}'"):
        convert("homedepot")


def test_best_buy_clicks_are_split_by_time_and_judged_by_the_later_ones(source, convert):
    write_source(source, "bestbuy")
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
    write_source(source, "bestbuy")
    folder = source / "product_data" / "products"
    folder.mkdir(parents=True)
    first = (source / "small_product_data.xml").rename(folder / "products_0001.xml")
    text = first.read_text("utf-8").replace("11<", "33<")
    (folder / "products_0002.xml").write_text(text, "utf-8")
    _, corpus, _ = convert("bestbuy")
    assert [doc_id for doc_id, _ in corpus] == ["11", "22", "33"]


def test_broken_xml_is_named(source, convert):
    broken = SOURCES["bestbuy"]["small_product_data.xml"][:-20]
    write_source(source, "bestbuy", small_product_data=broken)
    with pytest.raises(UserError, match=r"small_product_data\.xml is not well-formed XML"):
        convert("bestbuy")
