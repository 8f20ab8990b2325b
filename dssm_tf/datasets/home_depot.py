"""Home Depot product search relevance, a Kaggle competition."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.datasets.adapter import SPLIT_BY_QUERY, Adapter
from dssm_tf.datasets.output import DatasetWriter, clean
from dssm_tf.datasets.source import Source
from dssm_tf.tables.cells import BadRow, number

# Not UTF-8: in the files, the signs for registered trademarks and degrees are single bytes.
_ENCODING = "latin-1"
_MIN_CLICK_GRADE = 1.6


def convert(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Relevance 1 to 3, the mean of raters, becomes a grade from 0 to 2."""
    ids: dict[str, str] = {}  # numbered in order of appearance

    def add_product(doc_id: str, title: str) -> None:
        if (
            doc_id.strip() not in output.titles
        ):  # a row is a pair of query and product, so products repeat
            output.add_title(doc_id, title)

    def add_judgment(doc_id: str, query: str, text: str) -> None:
        relevance = number(text, "relevance")
        if not 1.0 <= relevance <= 3.0:
            raise BadRow(
                "relevance out of range",
                f"relevance is {text!r:.40}; expected a number from 1 to 3",
            )
        # Rounded, because the file has two decimals and 1.33 - 1.0 is 0.33000000000000007.
        grade = round(relevance - 1.0, 2)
        query_id = ids.setdefault(clean(query), f"q{len(ids) + 1:06d}")
        output.add_graded(query_id, query, doc_id, grade, _MIN_CLICK_GRADE)

    train = source.find("train.csv")
    for path in (train, *source.find_all("test.csv")):
        source.read(path, ("product_uid", "product_title"), add_product, encoding=_ENCODING)
    columns = ("product_uid", "search_term", "relevance")
    source.read(train, columns, add_judgment, encoding=_ENCODING)


ADAPTER = Adapter(
    title="Home Depot product search, graded by annotators",
    origin="the Kaggle competition Home Depot Product Search Relevance",
    license="the rules of the competition; not for redistribution",
    files=("train.csv", "test.csv (optional: more titles)"),
    grades="relevance - 1, so 0 to 2 with fractions; pairs graded 1.6 or more count as clicks",
    split=SPLIT_BY_QUERY,
    convert=convert,
    held_out=0.2,
)
