"""Home Depot product search relevance, a Kaggle competition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dssm_tf.datasets.adapter import SPLIT_BY_QUERY, Adapter
from dssm_tf.datasets.output import Output, clean, split_by_query
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow
from dssm_tf.tables.cells import number as parse_number
from dssm_tf.tables.layout import Layout

# The files are not UTF-8: registered and degree signs are single bytes.
_LAYOUT = Layout(encoding="latin-1")
_PRODUCT = ("product_uid", "product_title")
_CLICKED_FROM = 1.6


def convert(source: Source, output: Output, options: Mapping[str, str], held_out: float) -> None:
    """Relevance 1 to 3, the mean of raters, becomes a grade from 0 to 2."""
    train = source.find("train.csv")
    tables = [train, source.find_if_there("test.csv")]
    for path in tables:
        if path is not None:
            for _, (product, title) in source.table(path, _PRODUCT, _LAYOUT):
                if product.strip() not in output.titles:  # a row is a pair, not a product
                    output.add_title(product, title)

    ids: dict[str, str] = {}  # numbered in order of appearance

    def judged() -> Iterator[tuple[str, str, str, float]]:
        columns = ("product_uid", "search_term", "relevance")
        for number, (product, query, text) in source.table(train, columns, _LAYOUT):
            with source.checked(train, number):
                relevance = parse_number(text, "relevance")
                if not 1.0 <= relevance <= 3.0:
                    raise BadRow(
                        "relevance out of range",
                        f"relevance is {text!r:.40}; expected a number from 1 to 3",
                    )
                # Not the float's 0.33000000000000007: the file has two decimals.
                query_id = ids.setdefault(clean(query), f"q{len(ids) + 1:06d}")
                yield query_id, query, product, round(relevance - 1.0, 2)

    split_by_query(output, judged(), held_out, _CLICKED_FROM)


ADAPTER = Adapter(
    title="Home Depot product search, graded by annotators",
    described="the Kaggle competition Home Depot Product Search Relevance",
    licence="the rules of the competition; not for redistribution",
    files=("train.csv", "test.csv (if there: more titles)"),
    grades="relevance - 1, so 0 to 2 with fractions; pairs graded 1.6 or more count as clicks",
    split=SPLIT_BY_QUERY,
    convert=convert,
    held_out=0.2,
)
