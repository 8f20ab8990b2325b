"""WANDS: the Wayfair annotation data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dssm_tf.datasets.adapter import SPLIT_BY_QUERY, Adapter
from dssm_tf.datasets.output import Output, split_by_query
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.layout import Layout

_TABS = Layout(delimiter="\t")
GRADES = {"Exact": 2.0, "Partial": 1.0, "Irrelevant": 0.0}


def convert(source: Source, output: Output, options: Mapping[str, str], held_out: float) -> None:
    """Reads three tables that are named .csv and have tabs between their columns."""
    products, queries, labels = map(source.find, ("product.csv", "query.csv", "label.csv"))
    for _, (product_id, name) in source.table(products, ("product_id", "product_name"), _TABS):
        output.add_title(product_id, name)
    for _, (query_id, query) in source.table(queries, ("query_id", "query"), _TABS):
        output.queries.setdefault(query_id.strip(), query)

    def judged() -> Iterator[tuple[str, str, str, float]]:
        for number, (query_id, product_id, label) in source.table(
            labels, ("query_id", "product_id", "label"), _TABS
        ):
            with source.checked(labels, number):
                query = output.queries.get(query_id.strip())
                if label not in GRADES or query is None:
                    raise BadRow(
                        "unknown label or query",
                        f"the label is {label!r:.40} and the query_id {query_id!r:.40}; expected "
                        f"one of {', '.join(GRADES)} and an id of {queries.name}",
                    )
                yield query_id, query, product_id, GRADES[label]

    split_by_query(output, judged(), held_out, clicked_from=GRADES["Exact"])


ADAPTER = Adapter(
    title="Wayfair product search, graded by annotators",
    described="the repository WANDS of wayfair; Chen et al., ECIR 2022",
    licence="MIT License",
    files=("product.csv", "query.csv", "label.csv"),
    grades="Exact 2, Partial 1, Irrelevant 0; Exact pairs count as clicks",
    split=SPLIT_BY_QUERY,
    convert=convert,
    held_out=0.5,
)
