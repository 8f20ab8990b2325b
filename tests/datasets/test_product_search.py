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


def test_best_buys_big_catalog_is_many_files(source, convert):
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
