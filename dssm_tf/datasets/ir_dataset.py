"""Reads data sets of the library ir_datasets as data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from dssm_tf.common.errors import UserError, install_command
from dssm_tf.text.fields import join_fields

_CORPUS = {"doc_id": pl.String, "title": pl.String}
_QUERIES = {"query_id": pl.String, "query": pl.String}
_JUDGMENTS = {**_QUERIES, **_CORPUS, "grade": pl.Float64}


class IRDataset(NamedTuple):
    """The tables of a data set, as Polars frames. A table that the data set lacks is empty.

    Attributes:
        corpus: `doc_id`, `title`.
        queries: `query_id`, `query`.
        judgments: `query_id`, `query`, `doc_id`, `title`, `grade`.
    """

    corpus: pl.DataFrame
    queries: pl.DataFrame
    judgments: pl.DataFrame


def load_ir_dataset(dataset: Any, fields: Sequence[str] = ()) -> IRDataset:
    """Reads a data set of ir_datasets, for `dssm_tf.train` and `dssm_tf.evaluate`.

        beir = dssm_tf.load_ir_dataset("beir/scifact/test")
        dssm_tf.evaluate(model, beir.judgments, beir.corpus)

    Judgments of queries or documents that the data set lacks are left out. Negative grades, which
    mean spam, become 0.

    Args:
        dataset: the name of a data set, which ir_datasets downloads when it is first used; or a
            data set object of that library.
        fields: the fields of a document that are joined to its title, such as
            `["title", "brand"]`; by default the `default_text()` of the document.

    Raises:
        UserError: ir_datasets is not installed or has no such data set, or a document lacks a
            field.
    """
    if isinstance(dataset, str):
        try:
            import ir_datasets
        except ImportError as error:
            raise UserError(
                f"ir_datasets cannot be imported ({error}); install it with: "
                f"{install_command('datasets')}."
            ) from None
        try:
            dataset = ir_datasets.load(dataset)
        except KeyError:
            raise UserError(
                f"ir_datasets has no data set {dataset!r}; see https://ir-datasets.com."
            ) from None
    corpus = {}
    if dataset.has_docs():
        corpus = {doc.doc_id: _title(doc, fields) for doc in dataset.docs_iter()}
    queries = {}
    if dataset.has_queries():
        queries = {query.query_id: _text(query) for query in dataset.queries_iter()}
    judgments = []
    if dataset.has_qrels():
        judgments = [
            (
                qrel.query_id, queries[qrel.query_id], qrel.doc_id, corpus[qrel.doc_id],
                float(max(qrel.relevance, 0)),
            )
            for qrel in dataset.qrels_iter()
            if qrel.query_id in queries and qrel.doc_id in corpus
        ]  # fmt: skip
    return IRDataset(
        pl.DataFrame([*corpus.items()], _CORPUS, orient="row"),
        pl.DataFrame([*queries.items()], _QUERIES, orient="row"),
        pl.DataFrame(judgments, _JUDGMENTS, orient="row"),
    )


def _title(doc: Any, fields: Sequence[str]) -> str:
    """The title of a document."""
    if not fields:
        return _text(doc)
    if missing := [name for name in fields if not hasattr(doc, name)]:
        raise UserError(
            f"the documents have the fields {', '.join(doc._fields)}; expected {missing[0]!r}."
        )
    return join_fields([_one_line(getattr(doc, name)) for name in fields])


def _text(record: Any) -> str:
    """The default text of a document or query; before `default_text` existed, it was `text`."""
    default = getattr(record, "default_text", None)
    return _one_line(record.text if default is None else default())


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())
