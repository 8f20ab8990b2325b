"""WANDS: the Wayfair annotation data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dssm_tf.datasets.adapter import SPLIT_BY_QUERY, Adapter
from dssm_tf.datasets.output import DatasetWriter
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow

GRADES = {"Exact": 2.0, "Partial": 1.0, "Irrelevant": 0.0}


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Reads three tab-separated tables with names that end in .csv."""

    def add_judgment(query_id: str, doc_id: str, label: str) -> None:
        query = output.query(query_id)
        if label not in GRADES or not query:
            raise BadRow(
                "unknown label or query",
                f"the label is {label!r:.40} and the query_id {query_id!r:.40}; expected Exact, "
                "Partial or Irrelevant, and an id of query.csv",
            )
        output.add_graded(query_id, query, doc_id, GRADES[label], min_click_grade=GRADES["Exact"])

    tables: dict[str, tuple[tuple[str, ...], Callable[..., None]]] = {
        "product.csv": (("product_id", "product_name"), output.add_title),
        "query.csv": (("query_id", "query"), output.add_query),
        "label.csv": (("query_id", "product_id", "label"), add_judgment),
    }
    for name, (columns, process_row) in tables.items():
        source.read(source.find(name), columns, process_row, delimiter="\t")


ADAPTER = Adapter(
    title="Wayfair product search, graded by annotators",
    origin="the repository WANDS of wayfair; Chen et al., ECIR 2022",
    license="MIT License",
    files=("product.csv", "query.csv", "label.csv"),
    grades="Exact 2, Partial 1, Irrelevant 0; Exact pairs count as clicks",
    split=SPLIT_BY_QUERY,
    convert=convert,
    held_out=0.5,
)
