"""MS MARCO passages, and ORCAS clicks on MS MARCO documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dssm_tf.datasets.adapter import Adapter
from dssm_tf.datasets.output import DatasetWriter
from dssm_tf.datasets.source import Source
from dssm_tf.tables.trec import QRELS, QRELS_NAMES

_LICENSE = "research use only, by Microsoft's terms for MS MARCO; no commercial use"
_QUERY = ("query id", "query")
_PASSAGE = ("passage id", "passage")
_TITLES = ("para.title.txt", "titles.tsv")


def _passages(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """The title of a passage is that of its page if `_TITLES` exists, else the passage's text."""
    titles: dict[str, str] = {}

    def add_page_title(doc_id: str, text: str) -> None:
        titles.setdefault(doc_id, text)

    if source.find_all(*_TITLES):
        _read(source, _PASSAGE, add_page_title, *_TITLES)

    def add_passage(doc_id: str, text: str) -> None:
        title = titles.get(doc_id, "")
        output.add_title(doc_id, text if title.strip() in ("", "-") else title)

    _read(source, _PASSAGE, add_passage, "collection.tsv")
    _read(source, _QUERY, output.add_query, "queries.train.tsv")
    _read_qrels(source, output, "qrels.train.tsv", clicks=True)
    _read(source, _QUERY, output.add_query, "queries.dev.small.tsv", "queries.dev.tsv")
    _read_qrels(source, output, "qrels.dev.small.tsv", "qrels.dev.tsv")


def _orcas(source: Source, output: DatasetWriter, options: Mapping[str, str]) -> None:
    """Clicks are the pairs of ORCAS with document titles; judgments are those of dev."""

    def add_document(doc_id: str, _: str, title: str, __: str) -> None:
        output.add_title(doc_id, title)

    def add_click(_: str, query: str, doc_id: str, __: str) -> None:
        output.add_click(query, doc_id)

    _read(source, ("document id", "URL", "title", "body"), add_document, "msmarco-docs.tsv")
    _read(source, (*_QUERY, "document id", "URL"), add_click, "orcas.tsv")
    queries = ("msmarco-docdev-queries.tsv", "msmarco-test2019-queries.tsv")
    _read(source, _QUERY, output.add_query, *queries)
    _read_qrels(source, output, "msmarco-docdev-qrels.tsv", "2019qrels-docs.txt")


def _read(
    source: Source, columns: Sequence[str], process_row: Callable[..., object], *names: str
) -> None:
    """Reads a tab-separated table without header and quotes."""
    source.read(source.find(*names), columns, process_row, format="tsv", header=False)


def _read_qrels(source: Source, output: DatasetWriter, *names: str, clicks: bool = False) -> None:
    """Reads qrels as judgments or as clicks; their queries must have been read before."""

    def add_grade(query_id: str, doc_id: str, grade: float) -> None:
        if not clicks:
            output.add_judgment(query_id, output.query(query_id), doc_id, grade)
        elif grade > 0:
            output.add_click(output.query(query_id), doc_id)

    source.read(source.find(*names), QRELS, add_grade, format="trec", names=QRELS_NAMES)


MSMARCO = Adapter(
    title="MS MARCO passages: Bing questions and the passages that answer them",
    origin="the repository msmarco of microsoft (passage ranking, version 1); page titles by "
    "the RocketQA project of PaddlePaddle (para.title.txt)",
    license=_LICENSE,
    files=(
        "collection.tsv",
        "para.title.txt (optional: titles instead of passages)",
        "queries.train.tsv",
        "qrels.train.tsv",
        "queries.dev.small.tsv or queries.dev.tsv",
        "qrels.dev.small.tsv or qrels.dev.tsv",
    ),
    grades="1 as in the qrels",
    split="the publisher's: clicks are the judged pairs of train, judgments those of dev",
    convert=_passages,
)

ORCAS = Adapter(
    title="ORCAS: 18 million clicked queries and documents of Bing",
    origin="the pages ORCAS and document ranking (version 1) of the repository msmarco of "
    "microsoft; Craswell et al. 2020",
    license=_LICENSE,
    files=(
        "orcas.tsv",
        "msmarco-docs.tsv",
        "msmarco-docdev-queries.tsv (or msmarco-test2019-queries.tsv)",
        "msmarco-docdev-qrels.tsv (or 2019qrels-docs.txt)",
    ),
    grades="as in the qrels: 1 for dev, 0 to 3 for TREC 2019",
    split="the publisher's: clicks are ORCAS, judgments those of the other queries",
    convert=_orcas,
)
