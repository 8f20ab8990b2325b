"""ESCI: the Shopping Queries Data Set."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.common.errors import UserError
from dssm_tf.datasets.adapter import Adapter
from dssm_tf.datasets.output import ClickEvent, Output
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow, identifier, text

GRADES = {"E": 3.0, "S": 2.0, "C": 1.0, "I": 0.0}
_LOCALES = ("us", "es", "jp", "all")
_VERSIONS = ("large", "small")


def convert(source: Source, output: Output, options: Mapping[str, str], held_out: float) -> None:
    """Exact matches of the training split become clicks, the test split becomes judgments."""
    locale, version = options["locale"], options["version"]
    if locale not in _LOCALES or version not in _VERSIONS:
        raise UserError(
            f"locale is {locale!r} and version {version!r}; expected one of {', '.join(_LOCALES)} "
            f"and one of {', '.join(_VERSIONS)}."
        )
    products = source.find("shopping_queries_dataset_products.parquet", "*products*.parquet")
    examples = source.find("shopping_queries_dataset_examples.parquet", "*examples*.parquet")
    for number, (product_id, title, where) in source.table(
        products, ("product_id", "product_title", "product_locale")
    ):
        if locale in ("all", where):
            with source.checked(products, number):
                doc_id = _doc_id(identifier(product_id, "product_id"), where, locale)
                output.add_title(doc_id, text(title or "", "product_title"))
    columns = ("query_id", "query", "product_id", "product_locale", "esci_label", "split")
    for number, (query_id, query, product_id, where, label, split, chosen) in source.table(
        examples, (*columns, f"{version}_version")
    ):
        if not chosen or locale not in ("all", where):
            continue
        with source.checked(examples, number):
            if label not in GRADES or split not in ("train", "test"):
                raise BadRow(
                    "unknown label or split",
                    f"the label is {label!r:.40} and the split {split!r:.40}; expected one of "
                    f"{', '.join(GRADES)} and train or test",
                )
            doc_id = _doc_id(identifier(product_id, "product_id"), where, locale)
            query = text(query or "", "query")
            if split == "test":
                output.add_judgment(identifier(query_id, "query_id"), query, doc_id, GRADES[label])
            elif label == "E":
                output.add_click(ClickEvent(query, doc_id))


def _doc_id(product_id: str, where: str, locale: str) -> str:
    """The same product has other titles in other countries."""
    return f"{where}:{product_id}" if locale == "all" else product_id


ADAPTER = Adapter(
    title="Amazon shopping queries, graded exact, substitute, complement, irrelevant",
    described="the repository esci-data of amazon-science; Reddy et al. 2022",
    licence="Apache License 2.0",
    files=(
        "shopping_queries_dataset_examples.parquet",
        "shopping_queries_dataset_products.parquet",
    ),
    grades="E 3, S 2, C 1, I 0 (the publisher's own gains are 1, 0.1, 0.01 and 0)",
    split="the publisher's: clicks are the E pairs of split train, judgments all of split test",
    convert=convert,
    options={
        "locale": "us one of us, es, jp, all",
        "version": "large large, or small: the harder queries, for ranking",
    },
)
