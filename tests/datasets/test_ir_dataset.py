"""`dssm_tf.load_ir_dataset` on records with the attributes of ir_datasets, without a network."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
import pytest

import dssm_tf
from tests.rankers import TableRanker


class Doc(NamedTuple):
    doc_id: str
    title: str
    text: str

    def default_text(self):
        return f"{self.title} {self.text}"


class Query(NamedTuple):  # as in older versions, without `default_text`
    query_id: str
    text: str


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


class Dataset:
    """The interface of a data set of ir_datasets."""

    docs = (Doc("a", "red fox", "of the\nforest"), Doc("b", "owl", ""))
    queries = (Query("1", "fox"), Query("2", "owl"))
    qrels = (
        Qrel("1", "a", 2), Qrel("1", "b", -2), Qrel("2", "b", 1), Qrel("2", "gone", 1),
        Qrel("9", "a", 1),
    )  # fmt: skip

    def has_docs(self):
        return True

    has_queries = has_qrels = has_docs

    def docs_iter(self):
        return iter(self.docs)

    def queries_iter(self):
        return iter(self.queries)

    def qrels_iter(self):
        return iter(self.qrels)


def test_a_data_set_becomes_frames_that_evaluate_reads():
    data = dssm_tf.load_ir_dataset(Dataset())
    assert data.corpus.rows() == [("a", "red fox of the forest"), ("b", "owl")]
    assert data.queries.rows() == [("1", "fox"), ("2", "owl")]
    assert data.judgments.rows() == [
        ("1", "fox", "a", "red fox of the forest", 2.0),
        ("1", "fox", "b", "owl", 0.0),
        ("2", "owl", "b", "owl", 1.0),
    ]
    ranker = TableRanker({("fox", "owl"): 1.0, ("owl", "owl"): 1.0})
    result = dssm_tf.evaluate(ranker, data.judgments, data.corpus, metrics=["mrr@10"])
    assert result.mean("table", "mrr@10") == (1 / 2 + 1) / 2


def test_fields_of_documents_are_joined_to_a_title():
    data = dssm_tf.load_ir_dataset(Dataset(), fields=["title", "text"])
    assert data.corpus["title"].to_list() == ["red fox␟of the forest", "owl"]
    with pytest.raises(dssm_tf.UserError, match="have the fields doc_id, title, text; expected 'b"):
        dssm_tf.load_ir_dataset(Dataset(), fields=["brand"])


def test_small_files_are_read_through_the_library(tmp_path):
    ir_datasets = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("a\tred fox\nb\towl\n", "utf-8")
    (tmp_path / "queries.tsv").write_text("1\tfox\n", "utf-8")
    (tmp_path / "qrels").write_text("1 0 a 1\n", "utf-8")
    files = {"docs_tsv": "docs.tsv", "queries_tsv": "queries.tsv", "qrels_trec": "qrels"}
    dataset = ir_datasets.create_dataset(
        **{name: str(tmp_path / file) for name, file in files.items()}
    )
    data = dssm_tf.load_ir_dataset(dataset)
    assert data.judgments.rows() == [("1", "fox", "a", "red fox", 1.0)]
    assert data.corpus.schema == {"doc_id": pl.String, "title": pl.String}
    with pytest.raises(dssm_tf.UserError, match="ir_datasets has no data set 'nowhere'"):
        dssm_tf.load_ir_dataset("nowhere")
