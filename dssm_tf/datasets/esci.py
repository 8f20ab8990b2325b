"""ESCI: the Shopping Queries Data Set."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.datasets.adapter import Adapter, Option
from dssm_tf.datasets.output import DatasetWriter
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow

GRADES = {"E": 3.0, "S": 2.0, "C": 1.0, "I": 0.0}

_TRUE = ("1", "1.0", "True")
"""Values of the columns `small_version` and `large_version` if a pair is in that version."""


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Exact matches of the training split become clicks, the test split becomes judgments."""
    locale = options["locale"]

    def add_product(doc_id: str, title: str, product_locale: str) -> None:
        if product_locale == locale:
            output.add_title(doc_id, title)

    def add_example(
        query_id: str,
        query: str,
        doc_id: str,
        product_locale: str,
        label: str,
        split: str,
        in_version: str,
    ) -> None:
        if in_version not in _TRUE or product_locale != locale:
            return
        if label not in GRADES or split not in ("train", "test"):
            raise BadRow(
                "unknown label or split",
                f"the label is {label!r:.40} and the split {split!r:.40}; expected E, S, C or I, "
                "and train or test",
            )
        if split == "test":
            output.add_judgment(query_id, query, doc_id, GRADES[label])
        elif label == "E":
            output.add_click(query, doc_id)

    products = source.find("shopping_queries_dataset_products.parquet", "*products*.parquet")
    examples = source.find("shopping_queries_dataset_examples.parquet", "*examples*.parquet")
    source.read(products, ("product_id", "product_title", "product_locale"), add_product)
    columns = ("query_id", "query", "product_id", "product_locale", "esci_label", "split")
    source.read(examples, (*columns, f"{options['version']}_version"), add_example)


ADAPTER = Adapter(
    title="Amazon shopping queries, graded exact, substitute, complement, irrelevant",
    origin="the repository esci-data of amazon-science; Reddy et al. 2022",
    license="Apache License 2.0",
    files=(
        "shopping_queries_dataset_examples.parquet",
        "shopping_queries_dataset_products.parquet",
    ),
    grades="E 3, S 2, C 1, I 0 (the publisher's own gains are 1, 0.1, 0.01 and 0)",
    split="the publisher's: clicks are the E pairs of train, judgments all pairs of test",
    convert=convert,
    options={
        "locale": Option("us", "one of us, es, jp"),
        "version": Option("large", "large, or small: only the more difficult queries"),
    },
)
