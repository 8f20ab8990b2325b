"""The click log of Best Buy's mobile web site, from two Kaggle hackathons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import BY_LATER_CLICKS, SPLIT_BY_TIME, Adapter
from dssm_tf.datasets.output import DatasetWriter
from dssm_tf.datasets.source import LINE, NumberedRow, Source


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Reads titles from XML (one file, or many in the larger hackathon), and clicks from CSV."""
    names = ("small_product_data.xml", "products_*.xml", "product*.xml")
    for path in source.find_all(*names) or [source.find(*names)]:
        try:  # latin-1 keeps the bytes; the XML parser decodes them by the declared encoding
            source.read(
                path, LINE, output.add_title, format="txt", encoding="latin-1", transform=_products
            )
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise UserError(f"{path} is not well-formed XML: {error}.") from error

    def add_click(query: str, sku: str, time: str) -> None:
        output.add_event(query, sku, 1, time.strip())

    source.read(source.find("train.csv"), ("query", "sku", "click_time"), add_click)


def _products(lines: Iterable[NumberedRow]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yields the line number, `sku` and name of each `<product>`, with one in memory at a time."""
    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    depth = 0
    for number, (line,) in lines:
        parser.feed(f"{line}\n".encode("latin-1"))
        for event, element in parser.read_events():
            # Products contain other products (accessories). Only the outer ones are used.
            depth += 1 if event == "start" else -1
            if event == "end" and element.tag == "product" and depth == 1:
                yield number, (element.findtext("sku") or "", element.findtext("name") or "")
                element.clear()
    parser.close()


ADAPTER = Adapter(
    title="Best Buy mobile search, a click log",
    origin="the Kaggle hackathons of the ACM SF Bay Area Chapter, Best Buy mobile web site",
    license="the rules of the competition; not for redistribution",
    files=(
        "train.csv",
        "small_product_data.xml, or product_data/products/*.xml",
    ),
    grades=BY_LATER_CLICKS,
    split=SPLIT_BY_TIME,
    convert=convert,
    held_out=0.2,
    columns=("timestamp",),
)
