"""The mobile click log of Best Buy, two Kaggle hackathons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import SPLIT_BY_TIME, Adapter
from dssm_tf.datasets.output import ClickEvent, Output
from dssm_tf.datasets.source import Source

_LOG = ("sku", "query", "click_time")


def convert(source: Source, output: Output, options: Mapping[str, str], held_out: float) -> None:
    """Titles come from XML (one file, or the many of the big competition) or from a table."""
    train = source.find("train.csv")
    for path in _product_files(source):
        products = _xml_products(source, path) if ".xml" in path.suffixes else _table(source, path)
        for sku, name in products:
            output.add_title(sku, name)
    for number, (sku, query, clicked) in source.table(train, _LOG):
        with source.checked(train, number):
            output.add_event(ClickEvent(query, sku.strip(), 1, clicked.strip()))
    output.split_by_time(held_out)


def _product_files(source: Source) -> list[Path]:
    found = source.find_all("small_product_data.xml", "products_*.xml", "product*.xml")
    return found or [source.find("small_product_data.xml", "products.csv", "product_data.csv")]


def _table(source: Source, path: Path) -> Iterator[tuple[str, str]]:
    for _, (sku, name) in source.table(path, ("sku", "name")):
        yield sku, name


def _xml_products(source: Source, path: Path) -> Iterator[tuple[str, str]]:
    """The sku and the name of each `<product>`, one in memory at a time."""
    with source.open(path) as file:
        try:
            depth = 0
            for event, element in ElementTree.iterparse(file, ("start", "end")):
                # Products hold further products (accessories): only the outer ones are catalogued.
                depth += (event == "start") - (event == "end")
                if event == "end" and element.tag == "product" and depth == 1:
                    yield element.findtext("sku") or "", element.findtext("name") or ""
                    element.clear()
        except (ElementTree.ParseError, ValueError, LookupError) as error:  # of an encoding, too
            raise UserError(f"{path} is not well-formed XML: {error}.") from error


ADAPTER = Adapter(
    title="Best Buy mobile search, a click log",
    described="the Kaggle hackathons of the ACM SF Bay Area Chapter, Best Buy mobile web site",
    licence="the rules of the competition; not for redistribution",
    files=(
        "train.csv",
        "small_product_data.xml, or product_data/products/*.xml given as SRC's folder, or "
        "products.csv with the columns sku and name",
    ),
    grades="by later clicks, per query: 3 most clicked, 2 at least half of that, 1 clicked",
    split=SPLIT_BY_TIME,
    convert=convert,
    held_out=0.2,
    columns=("timestamp",),
)
