"""MS MARCO passages, and ORCAS clicks on MS MARCO documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dssm_tf.datasets.adapter import Adapter
from dssm_tf.datasets.output import ClickEvent, Output
from dssm_tf.datasets.source import Source
from dssm_tf.tables.trec import qrels_line

_LICENCE = "research use only, by Microsoft's terms for MS MARCO; no commercial use"


def _convert_passages(
    source: Source, output: Output, options: Mapping[str, str], held_out: float
) -> None:
    """Passages under their page's title where a file of titles lies beside, else their text."""
    path, titles = source.find_if_there("para.title.txt", "titles.tsv"), dict[str, str]()
    if path is not None:
        for _, (passage_id, title) in source.cells(path, ("passage id", "title")):
            if title.strip() not in ("", "-"):
                titles.setdefault(passage_id.strip(), title)
    collection = source.find("collection.tsv")
    for _, (passage_id, text) in source.cells(collection, ("passage id", "passage")):
        output.add_title(passage_id, titles.get(passage_id.strip()) or text)
    _queries(source, output, source.find("queries.train.tsv"))
    _judged(source, output, source.find("qrels.train.tsv"), clicks=True)
    _queries(source, output, source.find("queries.dev.small.tsv", "queries.dev.tsv"))
    _judged(source, output, source.find("qrels.dev.small.tsv", "qrels.dev.tsv"), clicks=False)


def _convert_orcas(
    source: Source, output: Output, options: Mapping[str, str], held_out: float
) -> None:
    """Every clicked pair of ORCAS under the title of its document; queries of dev judge."""
    documents = source.find("msmarco-docs.tsv")
    for _, (doc_id, _, title) in source.cells(documents, ("document id", "URL", "title")):
        output.add_title(doc_id, title)
    clicks = source.find("orcas.tsv")
    for _, (_, query, doc_id) in source.cells(clicks, ("query id", "query", "document id")):
        output.add_click(ClickEvent(query, doc_id))
    queries = source.find("msmarco-docdev-queries.tsv", "msmarco-test2019-queries.tsv")
    _queries(source, output, queries)
    qrels = source.find("msmarco-docdev-qrels.tsv", "2019qrels-docs.txt")
    _judged(source, output, qrels, clicks=False)


def _queries(source: Source, output: Output, path: Path) -> None:
    for _, (query_id, query) in source.cells(path, ("query id", "query")):
        output.queries.setdefault(query_id.strip(), query)


def _judged(source: Source, output: Output, path: Path, *, clicks: bool) -> None:
    """Reads qrels, white space between: the queries are known by now."""
    for number, line in source.lines(path):
        with source.checked(path, number):
            query_id, doc_id, grade = qrels_line(line)
            query = output.queries.get(query_id.strip())
            if query is None:
                output.dropped["judgment of a query without a text"] += 1
            elif not clicks:
                output.add_judgment(query_id, query, doc_id, grade)
            elif grade > 0:
                output.add_click(ClickEvent(query, doc_id))


MSMARCO = Adapter(
    title="MS MARCO passages: Bing questions and the passages that answer them",
    described="the repository msmarco of microsoft (passage ranking, version 1); page titles by "
    "the RocketQA project of PaddlePaddle (para.title.txt)",
    licence=_LICENCE,
    files=(
        "collection.tsv",
        "para.title.txt (if there: titles instead of passages)",
        "queries.train.tsv",
        "qrels.train.tsv",
        "queries.dev.small.tsv or queries.dev.tsv",
        "qrels.dev.small.tsv or qrels.dev.tsv",
    ),
    grades="1 as in the qrels",
    split="the publisher's: clicks are the judged pairs of train, judgments those of dev",
    convert=_convert_passages,
)

ORCAS = Adapter(
    title="ORCAS: 18 million clicked queries and documents of Bing",
    described="the pages ORCAS and document ranking (version 1) of the repository msmarco of "
    "microsoft; Craswell et al. 2020",
    licence=_LICENCE,
    files=(
        "orcas.tsv",
        "msmarco-docs.tsv",
        "msmarco-docdev-queries.tsv (or msmarco-test2019-queries.tsv)",
        "msmarco-docdev-qrels.tsv (or 2019qrels-docs.txt)",
    ),
    grades="as in the qrels: 1 for dev, 0 to 3 for TREC 2019",
    split="the publisher's: clicks are ORCAS, judgments those of the other queries",
    convert=_convert_orcas,
)
